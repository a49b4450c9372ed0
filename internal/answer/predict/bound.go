package predict

import (
	"slices"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/units"
)

// oneSegment is what the allocator takes from CUDA for a request between 1 and 10 MiB (kLargeBuffer, c10/core/AllocatorConfig.h): the
// price of one request that finds no free block because an earlier one was placed differently.
const oneSegment = 20 * units.MiB

// safeBound is a number of reserved bytes that a run is not expected to exceed. Not known to the byte are the order in which the driver
// hands out addresses, which decides between equal free blocks (both orders are played); requests that land elsewhere than in the model and
// need a segment of their own (measured: at most 0.7 % of what is reserved, over all rows without convolutions; one percent is
// allowed, and never less than one segment); which of cuDNN's kernels a convolution runs; and where a tensor that was on the host finds its place.
func safeBound(reserved units.Bytes, c convolutions) units.Bytes {
	return reserved + max(oneSegment, reserved/100) + c.left()
}

// lessKnown are jobs whose order of requests is not known well enough: what their bound has beside the one percent of all, as a share of what is reserved, from runs on an H200.
var lessKnown = []struct {
	when  func(j job.Job, conf alloc.Conf) bool
	share float64
}{
	// Adapters where some layers are checkpointed and segments expand: eleven runs of six plans used what was predicted to 0.01 %, and reserved between 0.8 % less and 5.2 % more
	// (docs/measurements/2026-11-16-h200-written-plans.md). Adapters without such segments reserve what is predicted, and so do such segments without adapters.
	{func(j job.Job, conf alloc.Conf) bool {
		return j.LoRARank > 0 && j.Checkpointing && j.Layers > 0 && conf.Expandable
	}, 0.05},
	// A base in eight bits: columns with outliers are multiplied apart, and which they are depends on the data. Of ten runs one reserved 1.4 % more
	// (docs/measurements/2026-11-16-h200-quantized.md).
	{func(j job.Job, _ alloc.Conf) bool { return j.BaseBits == 8 }, 0.02},
	// DoRA beside a quantized base, whose weights it unpacks: of ten runs one reserved 7.5 % more than was predicted.
	{func(j job.Job, _ alloc.Conf) bool { return j.BaseBits > 0 && j.DoRA }, 0.07},
}

// boundOf is the safe bound of a job that reserves so much, under allocator settings.
func boundOf(j job.Job, conf alloc.Conf, reserved units.Bytes, c convolutions) units.Bytes {
	safe := safeBound(reserved, c)
	for _, l := range lessKnown {
		if l.when(j, conf) {
			safe += units.Bytes(l.share * float64(reserved))
		}
	}
	return safe
}

// keptTrials is how many times the largest workspace the trials of cudnn.benchmark may leave in the allocator's cache on a card where none was measured: one that needs more than those before it gets
// a segment of its own. Where they were measured the trials are played at their most.
const keptTrials = 3

// left is what convolutions may leave behind beyond what the tape holds.
func (c convolutions) left() units.Bytes {
	if c.tries && c.unmeasured {
		return keptTrials * c.largest
	}
	return c.largest
}

// withTrials raises a bound to what is reserved where every trial of cudnn.benchmark takes the most it may.
func withTrials(safe units.Bytes, most *tape.Tape, m Machine, c convolutions) (units.Bytes, error) {
	played, err := play(most, m)
	if err != nil {
		return 0, err
	}
	return max(safe, safeBound(max(played.reserved, played.upward), c)), nil
}

// withoutWorkspaces raises a bound to what is reserved where cuDNN takes nothing for its convolutions. Less is asked for then, but more may be reserved: small tensors that would have been placed in the segment that a workspace
// left find none, are cut from a large free block, and pin it. A VQ-VAE with cudnn.benchmark reserved 8,422 MiB so on an H200, two segments of 4 GiB for one tensor of that size, where 4,750 were enough with a segment
// of 220 MiB left by a trial.
func withoutWorkspaces(safe units.Bytes, t *tape.Tape, m Machine) (units.Bytes, error) {
	bare, err := play(rigid(t), m)
	if err != nil {
		return 0, err
	}
	return max(safe, safeBound(max(bare.reserved, bare.upward), convolutions{})), nil
}

// convolutions remembers the largest workspace a convolution may take beyond what the tape holds, and whether one runs on a card
// where none was measured.
type convolutions struct {
	largest    units.Bytes
	doubt      units.Bytes // the part of it that measured neighbours took
	excess     units.Bytes // the largest part of a workspace on the tape that measured neighbours did without
	unmeasured bool
	any        bool // a convolution runs
	tries      bool // plans are tried out (torch.backends.cudnn.benchmark)
}

// see is told of every operator that may take other memory than the tape says.
func (c *convolutions) see(w eager.Work) {
	c.largest = max(c.largest, w.Spare)
	c.doubt, c.excess = max(c.doubt, w.Doubt), max(c.excess, w.Excess)
	c.unmeasured = c.unmeasured || w.Unmeasured
	c.any = c.any || w.Kind == eager.Convolved
}

// doubted is the part of a peak from which on the doubt about plans makes the answer a range.
const doubted = 50

// ends is the part of them by which the ends of such a range are wider than the plans say: the rest is not exact to the byte either.
const ends = 200

// uncounted is where a peak lies on a card where cuDNN's workspaces were not measured: without any, and with the largest beside it. There is never more than one at a time.
func (c convolutions) uncounted(peak units.Bytes, m Machine) *report.Range {
	if c.largest == 0 {
		return nil
	}
	return &report.Range{Low: peak, High: peak + c.largest, Why: "cuDNN's workspaces for convolutions were not measured on " + m.Card.Title + "; the peak counts none of them"}
}

// decides tells whether other plans of cuDNN's may change a peak so much that the answer is a range.
func (c convolutions) decides(peak units.Bytes) bool { return max(c.doubt, c.excess) > peak/doubted }

// byPlans is the range of peaks with the least and the most that measured neighbours of convolutions took; nil where that decides nothing.
func byPlans(low, high units.Bytes) *report.Range {
	if high-low <= high/doubted {
		return nil
	}
	return &report.Range{Low: low - low/ends, High: high + high/ends, Why: "it is not known which of its plans cuDNN runs for some convolutions: layers of nearly their shapes were measured with more and with less"}
}

// otherPlans trains a job once more with the least and with the most that its convolutions may take, where the table of workspaces is not sure and that would decide the answer.
func otherPlans(j job.Job, src Source, m Machine, peak units.Bytes, c convolutions) (*report.Range, error) {
	switch {
	case c.unmeasured:
		return c.uncounted(peak, m), nil
	case !c.decides(peak):
		return nil, nil
	}
	low, high := peak, peak
	for _, plans := range []eager.Plans{eager.LeastPlans, eager.MostPlans} {
		p, _, _, err := train(j, src, m, 0, func(p *eager.Process) { p.Plans = plans })
		if err != nil {
			return nil, err
		}
		with, err := play(p.Tape(), m)
		if err != nil {
			return nil, err
		}
		low, high = min(low, with.peak), max(high, with.peak)
	}
	return byPlans(low, high), nil
}

// rigid is a tape in which the workspaces that cuDNN can do without have a byte.
func rigid(t *tape.Tape) *tape.Tape {
	out, small := *t, map[uint32]bool{}
	out.Events = slices.Clone(t.Events)
	for i := range out.Events {
		e := &out.Events[i]
		if e.Kind == tape.Alloc && e.Elastic {
			small[e.ID] = true
		}
		if e.Kind != tape.Mark && small[e.ID] {
			e.Size = 1
		}
	}
	return &out
}
