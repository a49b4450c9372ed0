package plan

import (
	"testing"

	"github.com/plimsoll/plimsoll/internal/units"
)

func TestTheLeastChangeThatFitsIsTaken(t *testing.T) {
	t.Parallel()
	for mib, want := range map[units.Bytes]string{150: "full", 110: "LoRA", 20: "full"} {
		r := small(t, smallLlama, mib*units.MiB)
		r.Job.SetPrecision("bf16")
		fit, chosen, err := Compare(r)
		if err != nil {
			t.Fatal(err)
		}
		if got := chosen.Job.Adapters().Method(); got != want {
			t.Errorf("%d MiB: %s is taken, want %s: %+v", mib, got, want, fit.Methods)
		}
		if len(fit.Methods) != 3 {
			t.Fatalf("%d methods", len(fit.Methods))
		}
		for _, m := range fit.Methods {
			if m.Fits != (m.LargestBatch > 0) && mib == 20 {
				t.Errorf("%d MiB, %s: fits %v, largest batch %d", mib, m.Name, m.Fits, m.LargestBatch)
			}
			if m.Fits && (m.LongestSeq < r.Job.Seq || m.TokensPerSecond <= 0) {
				t.Errorf("%d MiB, %s: longest sample %d, %g tokens a second", mib, m.Name, m.LongestSeq, m.TokensPerSecond)
			}
		}
	}
}

func TestLargestFindsTheEdge(t *testing.T) {
	t.Parallel()
	for _, edge := range []int{0, 1, 2, 7, 100, 4000} {
		got := largest(1<<17, func(n int) bool { return n <= edge })
		if got > edge || got < edge-edge/30 {
			t.Errorf("edge %d: %d", edge, got)
		}
	}
}
