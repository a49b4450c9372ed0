package oomtext

import (
	"regexp"
	"testing"

	"pgregory.net/rapid"
)

// The lists of words find what the expressions they replaced did.
func TestWordsOfASceneAreThoseOfTheirExpressions(t *testing.T) {
	t.Parallel()
	ofSeveral := regexp.MustCompile(`rank ?[1-9]|world_size|\b[248]x|tensor[-_]parallel|fsdp|deepspeed|zero-?[23]|device_map|--tp|torchrun|gpus=[2-9]`)
	ofQuantised := regexp.MustCompile(`awq|gptq|int4|int8|4-?bit|8-?bit|nf4|gguf|fp8|bnb|_q[2-8]_|-q[2-8]`)
	pieces := []string{"rank", " ", "1", "9", "0", "2", "x", "8x", "a", "_", "-", "q", "5", "zero", "gpus=", "3", "tensor", "parallel", "bit", "4", "int", "awq", "\n", "é"}
	rapid.Check(t, func(t *rapid.T) {
		text := ""
		for _, p := range rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 12).Draw(t, "pieces") {
			text += p
		}
		b := []byte(text)
		if got := mentions(b, severalWords) || begins(b, severalTimes); got != ofSeveral.Match(b) {
			t.Fatalf("several in %q: %v", text, got)
		}
		if got := mentions(b, quantisedWords); got != ofQuantised.Match(b) {
			t.Fatalf("quantised in %q: %v", text, got)
		}
	})
}
