package oomtext

import (
	"strings"
	"testing"
)

func TestWarningsThatBearOnMemoryAreKeptOnceWithTheirLine(t *testing.T) {
	t.Parallel()
	log, err := Read(strings.NewReader("step 1\n[rank0]: x/torch/utils/checkpoint.py:91: UserWarning: None of the inputs have requires_grad=True. Gradients will be None\n" +
		strings.Repeat("`use_cache=True` is incompatible with gradient checkpointing. Setting `use_cache=False`...\n", 3) + "step 2\n"))
	if err != nil {
		t.Fatal(err)
	}
	if len(log.Messages) != 0 || len(log.Hints) != 2 {
		t.Fatalf("%d messages and hints %v", len(log.Messages), log.Hints)
	}
	for i, want := range []Hint{{Kind: HintNoInputGradient, Line: 2}, {Kind: HintCache, Line: 3}} {
		if h := log.Hints[i]; h.Kind != want.Kind || h.Line != want.Line || h.Text == "" {
			t.Errorf("hint %d: %+v, want %s in line %d", i, h, want.Kind, want.Line)
		}
	}
}
