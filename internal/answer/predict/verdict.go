package predict

import (
	"slices"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
)

// judge says whether a tape gets through in the memory there is, as the allocator goes about it: when a request finds no memory, cached segments are given
// back and it is tried again; a workspace of cuDNN that is refused is done without. Where the safe bound fits nothing of that can happen.
func judge(t *tape.Tape, m Machine, reserved, safe units.Bytes) (report.Verdict, *report.Limited, error) {
	if safe <= room(m) {
		return report.Fits, &report.Limited{Room: room(m), Reserved: reserved}, nil
	}
	limited, err := playWithin(t, alloc.Policy{Conf: m.Conf, Torch: m.Torch, Cap: m.Cap, Device: max(room(m), 1)})
	switch {
	case err != nil:
		return "", nil, err
	case limited.Failed > 0:
		return report.DoesNotFit, &limited, nil
	}
	return report.Tight, &limited, nil
}

// judged writes the verdict into a report.
func judged(r *report.Prediction, t *tape.Tape, m Machine) error {
	var err error
	r.Verdict, r.Limited, err = judge(t, m, r.Peak.Reserved, r.Safe)
	r.Fits = r.Verdict.Runs()
	return err
}

// Least is the smallest number of reserved bytes that the tape of a prediction gets through in, to a five-hundredth of it.
func Least(r *Result, m Machine) units.Bytes {
	t, free := r.Tape, r.free
	if free == (alloc.Peak{}) { // not played by itself
		res, err := alloc.Run(t, alloc.Policy{Conf: m.Conf, Torch: m.Torch}, nil)
		if err != nil {
			return 0
		}
		free = res.Stats.Peak
	}
	runs := func(t *tape.Tape, room units.Bytes) bool {
		res, err := alloc.Run(t, alloc.Policy{Conf: m.Conf, Torch: m.Torch, Cap: room}, nil)
		return err == nil && res.Outcome() != alloc.Fails
	}
	rigid := !slices.ContainsFunc(t.Events, func(e tape.Event) bool { return e.Elastic })
	search := func(t *tape.Tape) units.Bytes {
		low, high := units.Bytes(0), free.Reserved
		for high-low > high/500 {
			middle := (low + high) / 2
			if (!rigid || middle >= free.Requested) && runs(t, middle) { // what is in use at once has to be there
				high = middle
			} else {
				low = middle
			}
		}
		return high
	}
	// The third step asks for what the second does: it rarely needs more, and is tried where two steps get through.
	if least := search(twoSteps(t)); least == free.Reserved || runs(t, least) {
		return least
	}
	return search(t)
}
