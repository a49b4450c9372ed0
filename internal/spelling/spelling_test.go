package spelling

import "testing"

func TestTheNearestWordIsFoundAndStrangersGetNone(t *testing.T) {
	t.Parallel()
	known := []string{"adam", "adamw", "adamw-fused", "sgd", "rtx-4090"}
	for word, want := range map[string]string{"adma": "adam", "AdamW": "adamw", "adamwfused": "adamw-fused", "rtx4090": "rtx-4090", "rmsprop": "", "": ""} {
		if got := Nearest(word, known); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}
