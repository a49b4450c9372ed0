package plan

import (
	"testing"

	"pgregory.net/rapid"

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
	rapid.Check(t, func(t *rapid.T) {
		rest := rapid.IntRange(0, 1000).Draw(t, "what is there anyway")
		each := rapid.IntRange(1, 50).Draw(t, "each")
		more := rapid.IntRange(0, 300).Draw(t, "beyond the bound")
		limit := rapid.IntRange(1, 1<<17).Draw(t, "limit")
		room := units.Bytes(rapid.IntRange(0, 1<<20).Draw(t, "room"))
		needs := 0
		s := sized{
			room: room, part: fine,
			bound: func(n int) units.Bytes { return units.Bytes(max(rest, each*n)) },
			need: func(n int) units.Bytes {
				needs++
				return units.Bytes(max(rest, each*n) + each*n*more/1000)
			},
		}
		usual := rapid.IntRange(0, 4096).Draw(t, "usual")
		got, part := s.largest(usual, limit), fine
		if s.need(max(1, min(usual, limit))) > room {
			part = coarse
		}
		if got > 0 && (got > limit || s.need(got) > room) {
			t.Fatalf("%d does not fit", got)
		}
		if next := got + max(1, got/part) + 1; next <= limit && s.need(next) <= room {
			t.Fatalf("%d fits too, not only %d", next, got)
		}
		if needs > 40 {
			t.Fatalf("%d needs were computed", needs)
		}
	})
}
