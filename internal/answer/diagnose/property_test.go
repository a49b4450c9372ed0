package diagnose_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/units"
)

// A sound training program of any size on any card: where it dies something is said, and a smaller batch is advised only where
// it has a share; where it lives nobody is alarmed.
func TestNoDeathGoesUnexplainedAndNoLifeIsAlarmed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		p := on(units.Bytes(rapid.IntRange(1, 24).Draw(r, "card")) * 256 * mib)
		p.layers = rapid.IntRange(1, 12).Draw(r, "layers")
		p.parameter = units.Bytes(rapid.IntRange(1, 200).Draw(r, "parameter")) * mib
		p.activation = units.Bytes(rapid.IntRange(1, 300).Draw(r, "activation")) * mib
		p.load()
		for range rapid.IntRange(1, 6).Draw(r, "steps") {
			p.trainOn(rapid.SampledFrom([]float64{0.5, 1, 1, 1, 1.1}).Draw(r, "batch"))
		}
		if rapid.Bool().Draw(r, "old") {
			p.notes = nil
		}
		said := p.explain(t)
		if p.failed == 0 {
			for _, f := range said.Findings {
				if f.Severity != report.Remark {
					r.Fatalf("a sound program gets a %s, %s: %s", f.Severity, f.ID, f.Title)
				}
			}
			return
		}
		if len(said.Findings) == 0 || said.Findings[0].Severity != report.Error {
			r.Fatalf("died, and what is said is %s", ids(said))
		}
		switch first := said.Findings[0].ID; first {
		case "growth", "dataset-on-gpu", "resume-doubles", "model-copies", "eval-graph-kept", "eval-outputs-kept", "absurd-request":
			r.Fatalf("a sound program that is too large gets %s", first)
		}
	})
}
