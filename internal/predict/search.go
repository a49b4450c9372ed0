package predict

import (
	"github.com/plimsoll/plimsoll/internal/job"
	"github.com/plimsoll/plimsoll/internal/report"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Largest finds the largest batch that fits with everything else as it is and, for models of text, the longest sequence at the
// job's batch. Memory grows with both, so a search by halves is exact; where a size cannot be computed (longer than the
// model's positions) it counts as not fitting.
func Largest(j job.Job, src Source, m Machine) *report.Largest {
	out := &report.Largest{Batch: largest(maxBatch, func(n int) (units.Bytes, bool) {
		j := j
		j.Batch = n
		return need(j, src, m)
	}, room(m))}
	if j.Seq > 0 && src.Config != nil {
		out.Seq = largest(longest(src), func(n int) (units.Bytes, bool) {
			j := j
			j.Seq = n
			return need(j, src, m)
		}, room(m))
	}
	return out
}

const maxBatch = 1 << 16

// longest is the longest sequence worth trying: what the model has positions for.
func longest(src Source) int {
	for _, name := range []string{"max_position_embeddings", "n_positions"} {
		if src.Config.Has(name) && src.Config.Int(name) > 0 {
			return src.Config.Int(name)
		}
	}
	return 1 << 17
}

// room is what the process may reserve.
func room(m Machine) units.Bytes { return m.capacity() - m.context() }

func need(j job.Job, src Source, m Machine) (units.Bytes, bool) {
	r, err := Run(j, src, m)
	if err != nil {
		return 0, false
	}
	return r.Report.Safe, true
}

// largest is the largest n up to most whose need fits, 0 where not even one does. Need grows nearly in
// proportion, so each guess is drawn between the bounds by the last needs and few are tried.
func largest(most int, need func(n int) (units.Bytes, bool), room units.Bytes) int {
	fits := func(n int) (bool, units.Bytes) {
		b, ok := need(n)
		return ok && b <= room, b
	}
	ok, atLow := fits(1)
	if !ok {
		return 0
	}
	low, high := 1, 2
	atHigh := atLow
	for high <= most {
		if ok, atHigh = fits(high); !ok {
			break
		}
		low, atLow = high, atHigh
		high *= 2
	}
	if high > most {
		if ok, _ = fits(most); ok {
			return most
		}
		high, atHigh = most, 0
	}
	for try := 1; high-low > 1; try++ {
		guess := (low + high) / 2
		if atHigh > atLow && try%3 != 0 { // every third by halves: the worst case stays logarithmic
			share := float64(room-atLow) / float64(atHigh-atLow)
			guess = min(max(low+int(share*float64(high-low)), low+1), high-1)
		}
		good, at := fits(guess)
		if good {
			low, atLow = guess, at
		} else {
			high, atHigh = guess, at
		}
	}
	return low
}

// Room is what a process may reserve on a machine.
func Room(m Machine) units.Bytes { return room(m) }

// Capacity is what it may take in all, its context included.
func Capacity(m Machine) units.Bytes { return m.capacity() }

// CardName is what to call the machine's card on a screen.
func CardName(m Machine) string { return m.name() }

// Title is a job in a few words: model, sizes, precision, optimizer.
func Title(j job.Job, src Source) string { return title(j, src) }
