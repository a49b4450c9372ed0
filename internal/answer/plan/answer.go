package plan

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/model/exported"
	"github.com/plimsoll/plimsoll/internal/model/shard"
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/units"
)

// How far a time may be off. On the card of the measurements the median error is 3 %, 90 % of rows are within 12 %; rates of other cards come from datasheets,
// and nothing tested the transfer.
const (
	measuredError = 0.10
	hostError     = 0.15
	otherCard     = 0.30
)

func (s *search) uncertainty(c candidate) float64 {
	switch {
	case s.r.Machine.Card.Name != measuredCard || s.r.GPUs > 1 || c.Offload != "":
		return otherCard
	case c.took.hostBound:
		return hostError
	}
	return measuredError
}

// answer writes the report.
func (s *search) answer() (*report.Fit, error) {
	r := s.r
	f := &report.Fit{
		Schema: report.FitSchema, ID: r.Job.ID, Title: predict.Title(r.Job, r.Source), Card: predict.CardName(r.Machine), GPUs: r.GPUs,
		Capacity: predict.Capacity(r.Machine), Effective: r.Effective, Considered: s.considered, Predicted: s.predictions,
		Plans: []report.Plan{}, Alternatives: []report.Alternative{}, Warnings: []string{}, Assumptions: s.assumptions(),
	}
	for _, t := range s.passes {
		f.Params = max(f.Params, t.facts.Params)
	}
	ordered := s.ordered()
	for i := range ordered {
		f.Plans = append(f.Plans, s.reported(ordered, i))
	}
	if len(ordered) == 0 {
		f.Least = s.least()
	} else {
		f.Alternatives = s.alternatives(ordered[0])
		f.Warnings = s.warnings(ordered[0])
	}
	for _, c := range s.refused {
		if s.dominated(c, ordered) {
			continue
		}
		p := s.plan(c)
		p.Why = fmt.Sprintf("needs %s more than is available", (c.need.safe - s.room).Short())
		f.Plans = append(f.Plans, p)
	}
	f.Predicted = s.predictions
	return f, nil
}

// reported is one of the plans in their order.
func (s *search) reported(ordered []candidate, i int) report.Plan {
	p := s.plan(ordered[i])
	p.Why = s.why(i, ordered[i], ordered[0])
	p.Changes = s.buys(ordered[i], i == 0)
	return p
}

// dominated tells that the same plan fits with other settings, or was never predicted.
func (s *search) dominated(c candidate, ordered []candidate) bool {
	if c.need.safe == 0 {
		return true
	}
	return slices.ContainsFunc(ordered, func(o candidate) bool { return groupOf(o.point) == groupOf(c.point) }) ||
		slices.ContainsFunc(s.refused, func(o candidate) bool {
			return groupOf(o.point) == groupOf(c.point) && o.need.safe > 0 && o.need.safe < c.need.safe
		})
}

// why is a plan's place in a few words.
func (s *search) why(i int, c, first candidate) string {
	ratio := c.took.total / first.took.total
	switch {
	case i == 0 && c.took.hostBound:
		return "fastest that fits; launches take longer than kernels, a faster host would help"
	case i == 0:
		return "fastest that fits"
	case ratio < 1:
		return fmt.Sprintf("%.0f %% faster by the estimate, less than it can tell, and %s more memory", 100*(1-ratio), (c.need.safe - first.need.safe).Short())
	case c.need.safe < first.need.safe:
		return fmt.Sprintf("%.2f× the time, %s less memory", ratio, (first.need.safe - c.need.safe).Short())
	}
	return fmt.Sprintf("%.2f× the time", ratio)
}

// buys says what each change against the job as given is good for. sure: what it saves is predicted where it is not known yet.
func (s *search) buys(c candidate, sure bool) []string {
	j := s.r.Job
	out := []string{}
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if c.MicroBatch != j.Batch {
		add("micro-batch %d × %d instead of %d", c.MicroBatch, s.times(c.point), j.Batch)
	}
	differ := func(name string, other point) {
		text := name
		if d, err := s.time(other); err == nil && math.Abs(d.total/c.took.total-1) >= 0.005 {
			text += ", " + strings.Replace(fmt.Sprintf("%+.0f %% time", 100*(c.took.total/d.total-1)), "-", "−", 1)
		}
		m, known := s.memories[s.memoryKey(other)]
		if sure && !known {
			m = s.need(other)
		}
		if saved := c.need.safe - m.safe; m.err == nil && m.safe > 0 && max(saved, -saved) >= units.MiB {
			text += ", " + signed(saved)
		}
		out = append(out, text)
	}
	if c.Precision != j.Precision() {
		other := c.point
		other.Precision = j.Precision()
		differ(fmt.Sprintf("precision %s instead of %s", c.Precision, j.Precision()), other)
	}
	if (c.Checkpointing != setup.None) != j.Checkpointing || c.Checkpointing == setup.Selective {
		other := c.point.Checkpointed(0)
		switch {
		case c.Checkpointing == setup.None:
			out = append(out, "no checkpointing")
		case c.Checkpointing == setup.Selective:
			which := "the first %d of %d layers checkpointed"
			if s.calls(c.Layers) != nil {
				which = "%d of %d layers checkpointed, those that give most memory for their time"
			}
			differ(fmt.Sprintf(which, c.Layers, s.depth(c.Cut)), other)
		default:
			differ("every layer checkpointed", other)
		}
	}
	for _, d := range []struct {
		differs bool
		name    string
		set     func(*point)
	}{
		{c.Optimizer != j.Optimizer, "optimizer " + string(c.Optimizer), func(p *point) { p.Optimizer = j.Optimizer }},
		{c.Attn != j.Attn && c.Attn != "", "attention " + string(c.Attn), func(p *point) { p.Attn = j.Attn }},
		{c.Loop != j.Loop, loopWords[c.Loop], func(p *point) { p.Loop = j.Loop }},
		{c.Conf != s.r.Conf, "allocator " + c.Conf, func(p *point) { p.Conf = s.r.Conf }},
		{c.Offload.Has(setup.OffloadOptimizer), "optimizer state on the host", func(p *point) { p.Offload = p.Offload.Without(setup.OffloadOptimizer) }},
		{c.Offload.Has(setup.OffloadActivations), "activations on the host", func(p *point) { p.Offload = p.Offload.Without(setup.OffloadActivations) }},
	} {
		if d.differs {
			other := c.point
			d.set(&other)
			differ(d.name, other)
		}
	}
	return append(out, s.cuts(c)...)
}

// cuts says what cutting the model among cards costs.
func (s *search) cuts(c candidate) []string {
	var out []string
	times := s.times(c.point)
	if c.Tensor > 1 {
		spent := float64(times+max(c.Stages, 1)-1) * s.reduced(c.point) / c.took.total
		out = append(out, fmt.Sprintf("every layer split across %d cards: its all-reduces take %.0f %% of the step", c.Tensor, 100*spent))
	}
	if c.Context > 1 {
		spent := float64(times) * s.rotated(c.point) / c.took.total
		out = append(out, fmt.Sprintf("the tokens of every sample divided among %d cards: exchanging keys and values takes %.0f %% of the step", c.Context, 100*spent))
	}
	if c.Stages > 1 {
		out = append(out, fmt.Sprintf("a pipeline of %d stages, one forward one backward: it takes %.0f %% of the step to fill and drain", c.Stages, 100*float64(c.Stages-1)/float64(times+c.Stages-1)))
	}
	return out
}

// signed prints a difference of memory.
func signed(b units.Bytes) string {
	if b < 0 {
		return "−" + (-b).Short()
	}
	return "+" + b.Short()
}

// warnings say where the plan's accumulation is not quite the larger batch.
func (s *search) warnings(c candidate) []string {
	out := []string{}
	if l := c.need.limited; l != nil {
		out = append(out, fmt.Sprintf("tight: %s would be reserved on a larger card; here the allocator releases its cache %d times in three steps, and the card waits for each", c.need.peak.Reserved.Short(), l.Retries))
	}
	if s.times(c.point) > 1 {
		if s.any(func(w walked) bool { return w.batchNorm }) {
			out = append(out, "batch norm sees one micro-batch at a time: its statistics are those of "+fmt.Sprint(c.MicroBatch)+" samples, not of the effective batch")
		}
		if s.any(func(w walked) bool { return w.dropout }) {
			out = append(out, "dropout draws its masks in another order than with one large batch")
		}
		out = append(out, s.lossWarning(s.times(c.point))...)
	}
	return out
}

// lossWarning says how micro-batches' losses add up, by what is known of the loss. The tasks of transformers' models average over tokens that count or over
// samples (transformers/loss/loss_utils.py, 5.17); so does cross_entropy after a graph.
func (s *search) lossWarning(times int) []string {
	j := s.r.Job
	reduction := exported.Mean
	if g := s.r.Source.Graph; g != nil && j.Loss == "" {
		reduction = g.Reduction(j.LossOutput)
	}
	switch {
	case reduction == exported.Sum:
		return []string{fmt.Sprintf("the loss is a sum over the batch: add the micro-batches' losses up, without the division by %d that accumulation usually has", times)}
	case reduction == "":
		return []string{"divide each micro-batch's loss by the number of micro-batches if it is a mean; a sum is not divided"}
	case j.Seq > 0 && j.Task != "seq-cls":
		return []string{fmt.Sprintf("divide each micro-batch's loss by %d. It is a mean over tokens: where micro-batches have different numbers of tokens (padding, ignored labels), gradients differ slightly from those of one large batch", times)}
	}
	return []string{fmt.Sprintf("divide each micro-batch's loss by %d: it is a mean over samples", times)}
}

func (s *search) assumptions() []string {
	out := []string{"times are estimates for this card and a host that needs 18 µs per operator, as the measured one did; memory is predicted as by plimsoll predict"}
	if s.r.Machine.Card.Name != measuredCard || s.r.Machine.Assumed {
		if s.r.Machine.Assumed {
			out = append(out, "no card was named: the times are those of an H200")
		} else {
			out = append(out, "times were tested on an H200 only; for this card they follow from its datasheet")
		}
	}
	if s.r.GPUs > 1 {
		out = append(out, "several cards: memory and communication are computed, not measured; communication is assumed to overlap with computation where it can")
		if len(s.r.cuts) > 1 || !s.r.cuts[0].Whole() {
			out = append(out, "a model split across cards: all-reduces within layers do not overlap with computation, every stage takes as long as the slowest, and what DTensor costs the host is not counted")
		}
	}
	if slices.ContainsFunc(s.r.layouts(), func(p point) bool { return p.Context > 1 }) {
		out = append(out, "samples divided among cards: memory is that of PyTorch's ring attention on the first card of a group, with keys and values gathered (torchtitan's default), of which seven ranks on an H200 were within 0.02 %; its exchanges are taken not to overlap with computation")
	}
	if slices.ContainsFunc(s.r.Axes.Offload, func(o setup.Offload) bool { return o.Has(setup.OffloadActivations) }) {
		out = append(out, "activations on the host: which tensors are moved follows from PyTorch's source; the transfer rate is that of the link's generation; none of it was measured")
	}
	out = append(out, s.r.Job.Notes...)
	if s.r.GPUs > 1 {
		out = append(out, fmt.Sprintf("%s of each card is reserved for NCCL's buffers, and %.0f %% of the predicted need as a margin; neither was measured", shard.NCCL(s.r.GPUs, s.r.Machine.Card.NVLink > 0).Short(), 100*spreadMargin))
	}
	if s.r.Source.Graph != nil && s.layers == 0 {
		out = append(out, "no checkpointing: a graph does not say which calls may be checkpointed (a job's checkpoint_modules does)")
	}
	return out
}

// loopWords say what a loop lets go of that the job's own keeps.
var loopWords = map[setup.Loop]string{
	setup.Function: "the step in its own function, so that its locals are freed",
	setup.LossOnly: "the model's outputs are freed before backward",
	setup.Plain:    "the previous iteration's values stay alive",
	setup.Script:   "the previous iteration's values stay alive, except its batch",
}
