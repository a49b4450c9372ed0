package torch

import "testing"

func TestVersionsAreReadAsTorchPrintsThem(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Version{"2.9": V2_9, "2.11.0+cu130": V2_11, "v1.13.1": V1_13, "2.15.0a0": V2_15, "2.10": V2_10} {
		if got, err := ParseVersion(text); got != want || err != nil {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "2", "2.x", "3.0", "1.5", "2.-1", "latest"} {
		if got, err := ParseVersion(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
