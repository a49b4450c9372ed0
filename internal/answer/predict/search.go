package predict

import (
	"cmp"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Largest finds the largest batch that fits with everything else as it is (no request waits for memory, with the safe bound's margin), the largest that gets
// through at all, and, for models of text, the longest sequence that fits at the job's batch. Memory grows with both, so a search by halves is exact; where a size cannot be computed (longer than the
// model's positions) it counts as not fitting. A graph without an open size has one batch only: nil. What Run said of the job spares running it again; it may be nil.
func Largest(j job.Job, src Source, m Machine, done *Result) *report.Largest {
	if src.Graph != nil && len(src.Graph.Symbols) == 0 {
		return nil
	}
	all := newBatches(j, src, m, done)
	if all.hopeless() {
		return &report.Largest{}
	}
	all.draw()
	out := &report.Largest{Batch: all.largest()}
	if out.Batch < maxBatch {
		if most := all.tight(out.Batch); most > out.Batch {
			out.Tight = most
		}
	}
	if j.Seq > 0 && src.Config != nil {
		out.Seq = largest(j.Seq, longest(src), func(n int) (units.Bytes, bool) {
			j := j
			j.Seq = n
			return all.need(all.runOf(j))
		}, room(m))
	}
	return out
}

// maxBatch is where the search ends; a result of this size means at least as many.
const maxBatch = report.LargestBatch

// longest is the longest sequence worth trying: what the model has positions for.
func longest(src Source) int {
	return cmp.Or(src.Config.Positions(), 1<<17)
}

// room is what the process may reserve.
func room(m Machine) units.Bytes {
	all := m.capacity() - m.context()
	if m.Cap > 0 {
		return min(all, m.Cap)
	}
	return all
}

// upwards is the last size for which something holds, from one for which it does.
func upwards(fits int, runs func(n int) bool) int {
	low, high := fits, maxBatch+1
	for next := fits + max(1, fits/8); next < high; next += max(1, next/8) {
		if !runs(next) {
			high = next
			break
		}
		low = next
	}
	return halved(low, high, runs)
}

// around is a size for which something holds and not for the next one, near a guess; 0 where it holds for none below it. Steps grow from a hundredth of the guess.
func around(guess int, holds func(n int) bool) int {
	low, high := 0, maxBatch+1
	step := max(1, guess/128)
	if holds(guess) {
		for low = guess; low+step < high; step *= 2 {
			if !holds(low + step) {
				high = low + step
				break
			}
			low += step
		}
	} else {
		for high = guess; high-step > 0; step *= 2 {
			if holds(high - step) {
				low = high - step
				break
			}
			high -= step
		}
	}
	return halved(low, high, holds)
}

// halved is a size for which something holds and not for the next one, between one for which it does and one for which it does not.
func halved(low, high int, holds func(n int) bool) int {
	for high-low > 1 {
		if middle := (low + high) / 2; holds(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

// largest is the largest n up to most whose need fits, 0 where not even one does. The search sets out from start; need grows nearly
// in proportion, so each guess is drawn between the bounds by their needs, and few are tried.
func largest(start, most int, need func(n int) (units.Bytes, bool), room units.Bytes) int {
	fits := func(n int) (bool, units.Bytes) {
		b, ok := need(n)
		return ok && b <= room, b
	}
	low, high, atLow, atHigh := bracket(min(start, most), most, fits)
	for try := 1; high-low > 1; try++ {
		guess := (low + high) / 2
		if low > 0 && atHigh > atLow && try%3 != 0 { // every third by halves: the worst case stays logarithmic
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

// bracket finds a size that fits (0 does) and a larger one that does not (one more than most counts as such).
func bracket(start, most int, fits func(n int) (bool, units.Bytes)) (low, high int, atLow, atHigh units.Bytes) {
	ok, at := fits(start)
	if ok {
		low, atLow = start, at
		for low < most {
			next := min(2*low, most)
			if ok, at = fits(next); !ok {
				return low, next, atLow, at
			}
			low, atLow = next, at
		}
		return low, most + 1, atLow, 0
	}
	high, atHigh = start, at
	for high > 1 {
		if ok, at = fits(high / 2); ok {
			return high / 2, high, at, atHigh
		}
		high, atHigh = high/2, at
	}
	return 0, 1, 0, atHigh
}

// Room is what a process may reserve on a machine.
func Room(m Machine) units.Bytes { return room(m) }

// Context is what the process takes of the card beside the allocator's memory.
func Context(m Machine) units.Bytes { return m.context() }

// Capacity is what it may take in all, its context included.
func Capacity(m Machine) units.Bytes { return m.capacity() }

// CardName is what to call the machine's card on a screen.
func CardName(m Machine) string { return m.name() }

// Title is a job in a few words: model, sizes, precision, optimizer.
func Title(j job.Job, src Source) string { return title(j, src) }
