package predict

import (
	"testing"

	"github.com/plimsoll/plimsoll/internal/units"
)

func TestTheLargestBatchOfDrawnTapesIsThatOfRealOnes(t *testing.T) {
	t.Parallel()
	for i, r := range measuredRows(t) {
		if i%40 != 3 {
			continue
		}
		src, err := source(t, r.Job)
		if err != nil {
			t.Fatal(err)
		}
		m := h200(t)
		m.Capacity = 24 * units.GiB
		got := Largest(r.Job, src, m, nil)
		if got == nil {
			continue
		}
		want := largest(r.Batch, maxBatch, func(n int) (units.Bytes, bool) {
			j := r.Job
			j.Batch = n
			p, _, conv, err := train(j, src, m, 2)
			if err != nil {
				return 0, false
			}
			return (&batches{m: m}).need(ran{tape: p.Tape(), conv: conv})
		}, room(m))
		if got.Batch != want {
			t.Errorf("%s: %d, looked for one by one %d", r.ID, got.Batch, want)
		}
	}
}
