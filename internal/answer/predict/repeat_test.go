package predict

import (
	"testing"

	"github.com/plimsoll/plimsoll/internal/model/eager"
)

func TestTheThirdStepIsACopyOfTheSecond(t *testing.T) {
	t.Parallel()
	m := h200(t)
	told := m
	told.Observe = func(eager.Work) {} // every step is run
	for i, r := range measuredRows(t) {
		if i%20 != 0 {
			continue
		}
		src, err := source(t, r.Job)
		if err != nil {
			t.Fatal(err)
		}
		short, _, _, err := train(r.Job, src, m, 3)
		if err != nil {
			continue // refused either way
		}
		long, _, _, err := train(r.Job, src, told, 3)
		if err != nil {
			t.Fatal(err)
		}
		if err := sameTape(short.Tape(), long.Tape()); err != nil {
			t.Errorf("%s: %v", r.ID, err)
		}
	}
}
