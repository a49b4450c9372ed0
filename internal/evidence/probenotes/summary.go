package probenotes

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/units"
)

// Healthy gives the closing lines of a run that did not die of memory: peak, headroom and trend; what would still fit.
// It gives none when no process that took notes used a GPU.
func Healthy(processes []Process) []string {
	p, ok := fullest(processes)
	if !ok {
		return nil
	}
	lines := []string{peakLine(p, len(ranks(processes)))}
	if more := outlook(p); more != "" {
		lines = append(lines, more)
	}
	if rank := outlier(processes); rank != "" {
		lines = append(lines, rank)
	}
	if p.OOMCount > 0 {
		lines = append(lines, fmt.Sprintf("it ran out of memory %s times and continued; --report DIR keeps the evidence.", units.Count(p.OOMCount)))
	}
	return lines
}

// PeakLine says how full the card got; false when no GPU was used.
func PeakLine(processes []Process) (string, bool) {
	p, ok := fullest(processes)
	if !ok {
		return "", false
	}
	return peakLine(p, len(ranks(processes))), true
}

// fullest is the process with the highest peak among those that used a GPU.
func fullest(processes []Process) (Process, bool) {
	var best Process
	found := false
	for _, p := range processes {
		if p.Device != nil && (!found || p.Peak.Allocated > best.Peak.Allocated) {
			best, found = p, true
		}
	}
	return best, found
}

func peakLine(p Process, ranks int) string {
	where := fmt.Sprintf("GPU %d", *p.Device)
	if ranks > 1 {
		where = fmt.Sprintf("rank %d (GPU %d), the fullest of %d ranks", p.Rank, *p.Device, ranks)
	}
	limit, known := p.Limit()
	if !known {
		return fmt.Sprintf("peak %s on %s%s%s.", p.Peak.Allocated.Short(), where, at(p), trendWords(p))
	}
	return fmt.Sprintf("peak %s of %s GiB on %s%s%s; %s.", p.Peak.Allocated.GiBString(1), limit.GiBString(1), where, at(p), trendWords(p), headroom(p))
}

// usual is what CUDA's context and its libraries take of a card; more than that belongs to someone else.
const usual = 2 * units.GiB

// headroom is what the process could still have taken beside everything else on the card.
func headroom(p Process) string {
	room, _ := p.Room()
	left := max(0, room-p.Peak.Allocated)
	if p.Outside == nil {
		return left.Short() + " headroom if the card is otherwise empty"
	}
	if *p.Outside < usual {
		return left.Short() + " headroom"
	}
	return fmt.Sprintf("%s headroom (%s of the card is used outside PyTorch)", left.Short(), p.Outside.Short())
}

func at(p Process) string {
	if p.Step == 0 {
		return ""
	}
	if p.Peak.Phase == "" { // where recording shows, the probe asks in one step of four
		return fmt.Sprintf(" (about step %d)", p.Peak.Step+1)
	}
	return fmt.Sprintf(" (step %d, %s)", p.Peak.Step+1, p.Peak.Phase)
}

func trendWords(p Process) string {
	t := p.Trend()
	switch {
	case !t.Known:
		return ""
	case t.Growing:
		return fmt.Sprintf(", growing by %s per step", t.PerStep.Short())
	}
	return ", steady since"
}

// outlook says what the trend or the headroom means for the next run.
func outlook(p Process) string {
	limit, known := p.Room()
	t := p.Trend()
	switch {
	case !known || !t.Known:
		return ""
	case t.Growing && t.PerStep > 0:
		return fmt.Sprintf("at this rate memory runs out after about %s more steps; plimsoll lint finds what keeps tensors alive.",
			units.Count(int((limit-p.Peak.Allocated)/t.PerStep)))
	}
	batch := p.Batch()
	fits := largestBatch(p, t, limit, batch)
	switch {
	case batch == 0 || fits <= batch:
		return ""
	}
	return fmt.Sprintf("batch %d would still fit (you use %d), by arithmetic.", fits, batch)
}

// largestBatch takes everything above the floor for proportional to the batch. Gradients and the optimizer's
// temporaries are not, so the answer errs on the small side. A twentieth of the card stays free for fragmentation.
func largestBatch(p Process, t Trend, limit units.Bytes, batch int) int {
	grows := p.Peak.Allocated - t.Floor
	if grows <= 0 || batch <= 0 {
		return 0
	}
	return int(float64(limit-limit/20-t.Floor) / float64(grows) * float64(batch))
}

// outlier names a rank that holds clearly more than the others.
func outlier(processes []Process) string {
	byRank := ranks(processes)
	if len(byRank) < 2 {
		return ""
	}
	peaks := make([]units.Bytes, 0, len(byRank))
	for _, p := range byRank {
		peaks = append(peaks, p.Peak.Allocated)
	}
	slices.Sort(peaks)
	median := peaks[(len(peaks)-1)/2]
	top, _ := fullest(byRank)
	if top.Peak.Allocated <= median+median/10 {
		return fmt.Sprintf("all %d ranks use about the same: %s to %s.", len(byRank), peaks[0].Short(), peaks[len(peaks)-1].Short())
	}
	return fmt.Sprintf("rank %d stands out: %s, the median rank holds %s.", top.Rank, top.Peak.Allocated.Short(), median.Short())
}

// ranks keeps one process a rank, the one with the highest peak, in order of rank.
func ranks(processes []Process) []Process {
	best := map[int]Process{}
	for _, p := range processes {
		if p.Device == nil {
			continue
		}
		if old, ok := best[p.Rank]; !ok || p.Peak.Allocated > old.Peak.Allocated {
			best[p.Rank] = p
		}
	}
	all := make([]Process, 0, len(best))
	for _, p := range best {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b Process) int { return a.Rank - b.Rank })
	return all
}

// Died gives the processes of a failed run that memory ended, in order of rank: those whose error says so, and those that
// had a request fail and ended without an error of another kind (killed, or left by sys.exit).
func Died(processes []Process) []Process {
	var dead []Process
	for _, p := range processes {
		if p.DiedOfMemory() || (len(p.OOMs) > 0 && p.Error == nil) {
			dead = append(dead, p)
		}
	}
	slices.SortStableFunc(dead, func(a, b Process) int { return a.Rank - b.Rank })
	return dead
}

// WhoDied says which ranks memory ended, in one line; empty for a job of one process.
func WhoDied(dead, all []Process) string {
	total := len(ranks(all))
	if total < 2 || len(dead) == 0 {
		return ""
	}
	names := make([]string, 0, len(dead))
	for _, p := range dead {
		names = append(names, fmt.Sprint(p.Rank))
	}
	line := fmt.Sprintf("out of memory on rank %s of %d.", strings.Join(names, ", "), total)
	if rank := outlier(all); rank != "" {
		line += " " + strings.ToUpper(rank[:1]) + rank[1:]
	}
	return line
}
