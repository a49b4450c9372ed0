package oomtext

import "bytes"

// hintTexts are what the warnings say, in words that no release has changed: torch 1.x to 2.11, transformers 4.x and 5.x.
var hintTexts = []struct {
	kind HintKind
	text []byte
}{
	{HintNoInputGradient, []byte("None of the inputs have requires_grad=True")},
	{HintCache, []byte("incompatible with gradient checkpointing")},
}

// readWarning makes the words of the warnings triggers: their lines are looked at, and they are no messages.
func readWarning(squashed, int) (span, bool) { return span{}, false }

// hint keeps the first line of each kind of warning.
func (r *reader) hint(text []byte) {
	for _, h := range hintTexts {
		if !bytes.Contains(text, h.text) {
			continue
		}
		for _, known := range r.log.Hints {
			if known.Kind == h.kind {
				return
			}
		}
		r.log.Hints = append(r.log.Hints, Hint{Kind: h.kind, Line: r.log.Lines, Text: clip(bytes.TrimRight(bytes.TrimSpace(text), "."))})
	}
}
