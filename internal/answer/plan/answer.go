package plan

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/model/exported"
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
	case s.r.Machine.Card.Name != "h200" || s.r.GPUs > 1 || c.offload != "":
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
	for i, c := range ordered {
		p := s.plan(c)
		p.Why = s.why(i, c, ordered[0])
		p.Changes = s.buys(c, i == 0)
		f.Plans = append(f.Plans, p)
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
		p.Why = fmt.Sprintf("needs %s more than there is", (c.need.safe - s.room).Short())
		f.Plans = append(f.Plans, p)
	}
	f.Predicted = s.predictions
	return f, nil
}

// dominated tells that the same plan fits with other settings, or was never predicted.
func (s *search) dominated(c candidate, ordered []candidate) bool {
	if c.need.safe == 0 {
		return true
	}
	return slices.ContainsFunc(ordered, func(o candidate) bool { return o.group() == c.group() }) ||
		slices.ContainsFunc(s.refused, func(o candidate) bool { return o.group() == c.group() && o.need.safe > 0 && o.need.safe < c.need.safe })
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
	if c.batch != j.Batch {
		add("micro-batch %d × %d instead of %d", c.batch, s.times(c.point), j.Batch)
	}
	differ := func(name string, other point, layers int) {
		text := name
		if d, err := s.time(other, layers); err == nil && math.Abs(d.total/c.took.total-1) >= 0.005 {
			text += ", " + strings.Replace(fmt.Sprintf("%+.0f %% time", 100*(c.took.total/d.total-1)), "-", "−", 1)
		}
		m, known := s.memories[s.key(other, layers)]
		if sure && !known {
			m = s.need(s.key(other, layers))
		}
		if saved := c.need.safe - m.safe; m.err == nil && m.safe > 0 && max(saved, -saved) >= units.MiB {
			text += ", " + signed(saved)
		}
		out = append(out, text)
	}
	if c.precision != j.Precision() {
		other := c.point
		other.precision = j.Precision()
		differ("precision "+c.precision+" instead of "+j.Precision(), other, c.layers)
	}
	if (c.checkpointing != None) != j.Checkpointing || c.checkpointing == Selective {
		other := c.point
		other.checkpointing = None
		switch {
		case c.checkpointing == None:
			out = append(out, "no checkpointing")
		case c.checkpointing == Selective:
			which := "the first %d of %d layers checkpointed"
			if s.calls(c.layers) != nil {
				which = "%d of %d layers checkpointed, those that give most memory for their time"
			}
			differ(fmt.Sprintf(which, c.layers, s.depth(c.layout)), other, 0)
		default:
			differ("every layer checkpointed", other, 0)
		}
	}
	for _, d := range []struct {
		differs bool
		name    string
		set     func(*point)
	}{
		{c.optimizer != j.Optimizer, "optimizer " + c.optimizer, func(p *point) { p.optimizer = j.Optimizer }},
		{c.attn != j.Attn, "attention " + c.attn, func(p *point) { p.attn = j.Attn }},
		{c.loop != j.Loop, "the step as a function, so that its locals die", func(p *point) { p.loop = j.Loop }},
		{c.conf != s.r.Conf, "allocator " + c.conf, func(p *point) { p.conf = s.r.Conf }},
		{c.onHost(OffloadOptimizer), "optimizer state on the host", func(p *point) { p.offload = without(p.offload, OffloadOptimizer) }},
		{c.onHost(OffloadActivations), "activations on the host", func(p *point) { p.offload = without(p.offload, OffloadActivations) }},
	} {
		if d.differs {
			other := c.point
			d.set(&other)
			differ(d.name, other, c.layers)
		}
	}
	return append(out, s.cuts(c)...)
}

// cuts says what cutting the model among cards costs.
func (s *search) cuts(c candidate) []string {
	var out []string
	times := s.times(c.point)
	if c.tensor > 1 {
		spent := float64(times+max(c.stages, 1)-1) * s.reduced(c.point, c.layers) / c.took.total
		out = append(out, fmt.Sprintf("every layer cut among %d cards: its all-reduces take %.0f %% of the step", c.tensor, 100*spent))
	}
	if c.stages > 1 {
		out = append(out, fmt.Sprintf("a pipeline of %d stages, one forward one backward: it takes %.0f %% of the step to fill and drain", c.stages, 100*float64(c.stages-1)/float64(times+c.stages-1)))
	}
	return out
}

// without takes one thing off the host again.
func without(offload, what string) string {
	switch {
	case offload == what:
		return ""
	case offload == OffloadBoth && what == OffloadOptimizer:
		return OffloadActivations
	case offload == OffloadBoth:
		return OffloadOptimizer
	}
	return offload
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
	if s.times(c.point) > 1 {
		if s.any(func(w walked) bool { return w.batchNorm }) {
			out = append(out, "batch norm sees one micro-batch at a time: its statistics are those of "+fmt.Sprint(c.batch)+" samples, not of the effective batch")
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
		return []string{fmt.Sprintf("divide each micro-batch's loss by %d; it is a mean over tokens, so micro-batches whose numbers of tokens differ (padding, ignored labels) weigh otherwise than in one batch", times)}
	}
	return []string{fmt.Sprintf("divide each micro-batch's loss by %d: it is a mean over samples", times)}
}

func (s *search) assumptions() []string {
	out := []string{"times are estimates for this card and a host like that of the measurements (18 µs an operator); memory is predicted as plimsoll predict does"}
	if s.r.Machine.Card.Name != "h200" || s.r.Machine.Assumed {
		if s.r.Machine.Assumed {
			out = append(out, "no card was named: rates are those of an H200")
		} else {
			out = append(out, "the cost model was tested on an H200 only; this card's rates are its datasheet's")
		}
	}
	if s.r.GPUs > 1 {
		out = append(out, "several cards: memory and communication are computed by arithmetic, not measured; collectives are taken to hide behind compute as far as they can")
		if len(s.r.layouts) > 1 || s.r.layouts[0] != whole {
			out = append(out, "a model cut among cards: all-reduces of layers are not hidden, stages take as long as the slowest, and what DTensor costs the host is not counted")
		}
	}
	if slices.ContainsFunc(s.r.Axes.Offload, func(o string) bool { return o == OffloadActivations || o == OffloadBoth }) {
		out = append(out, "activations on the host: which tensors travel follows from PyTorch's source; the link's rate is its generation's, and nothing of it was measured")
	}
	if s.r.Source.Graph != nil && s.layers == 0 {
		out = append(out, "no checkpointing: a graph does not say which calls may be checkpointed (a job's checkpoint_modules does)")
	}
	return out
}
