package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/gpu"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// alternatives are what one would try first, and why it loses against the chosen plan.
func (s *search) alternatives(best candidate) []report.Alternative {
	out := []report.Alternative{}
	add := func(what string, p point) {
		d, err := s.time(p)
		if err != nil {
			return
		}
		a := report.Alternative{What: what, StepMS: 1000 * d.total}
		if b := s.bound(p); b > s.room+s.room/4 { // even if the allocator releases its cache
			a.Why = fmt.Sprintf("does not fit: at least %s too much", (b - s.room).Short())
			out = append(out, a)
			return
		}
		m := s.need(p)
		switch {
		case m.err != nil:
			return
		case m.safe > s.room && s.listed(p): // with other allocator settings it is one of the plans
			return
		case m.safe > s.room && s.squeeze(p, m).limited == nil:
			a.Why = fmt.Sprintf("does not fit: %s too much", (m.safe - s.room).Short())
		case m.safe > s.room:
			a.Why = "tight: completes only because the allocator releases its cache"
		case d.total > best.took.total:
			a.Why = fmt.Sprintf("%.2f× the time", d.total/best.took.total)
		default:
			return
		}
		out = append(out, a)
	}
	j := s.r.Job
	simple := best.point.Checkpointed(0)
	simple.Optimizer, simple.Conf, simple.Offload = j.Optimizer, s.r.Conf, setup.OffloadNone
	each := s.r.Effective / best.Groups()
	if each != best.MicroBatch && s.r.fixedBatch() == 0 && slices.Contains(s.r.batches(best.point), each) {
		simple.MicroBatch = each
		add("the whole batch at once, no checkpointing", simple)
		if s.layers > 0 {
			add("the whole batch at once, every layer checkpointed", simple.Checkpointed(-1))
		}
	}
	plain := 0
	if best.Checkpointing != setup.None {
		if b := s.largestPlain(best); b > 0 && b != best.MicroBatch {
			plain = b
			simple.MicroBatch = b
			add(fmt.Sprintf("halve the batch until it runs without checkpointing (%d × %d)", b, each/b), simple)
		}
	}
	if best.MicroBatch != 1 && plain != 1 && slices.Contains(s.r.batches(best.point), 1) {
		simple.MicroBatch = 1
		add(fmt.Sprintf("one sample at a time (1 × %d), without checkpointing", each), simple)
	}
	return out
}

// listed tells that a point is one of the plans that fit, perhaps with settings that cost no time.
func (s *search) listed(p point) bool {
	return slices.ContainsFunc(s.found, func(c candidate) bool { return groupOf(c.point) == groupOf(p) })
}

// largestPlain is the largest micro-batch that fits without checkpointing, 0 where none does.
func (s *search) largestPlain(best candidate) int {
	p := best.point.Checkpointed(0)
	for _, b := range slices.Backward(s.r.batches(best.point)) {
		p.MicroBatch = b
		if _, ok := s.fits(p); ok {
			return b
		}
	}
	return 0
}

// least is what would do when nothing fits: more cards, a larger card, state on the host, adapters.
func (s *search) least() []report.Remedy {
	p := s.smallest()
	if s.layers > 0 {
		p = p.Checkpointed(-1)
	}
	m := s.need(p)
	if m.err != nil {
		return nil
	}
	context := s.outside(p)
	var out []report.Remedy
	add := func(checked string, saves units.Bytes, numerics bool, format string, args ...any) {
		out = append(out, report.Remedy{Action: fmt.Sprintf(format, args...), Saves: saves, CheckedBy: checked, Numerics: numerics})
	}
	who := "the card needs"
	if s.r.GPUs > 1 {
		who = fmt.Sprintf("each of %d cards needs", s.r.GPUs)
	}
	add(report.ByPrediction, 0, false, "%s at least %s with the changes allowed (micro-batch %d, %s, %s, checkpointing %s)",
		who, (m.safe + context).Short(), p.MicroBatch, p.Precision, p.Optimizer, p.Checkpointing)
	if c, ok := smallestCard(m.safe + context); ok {
		add(report.ByPrediction, 0, false, "smallest card in the catalogue with enough memory: %s (%s)", c.Title, c.Capacity().Short())
	}
	if n := s.fewestCards(p); n > 0 {
		add(report.ByArithmetic, 0, false, "smallest number of these cards: %d with FSDP2", n)
	}
	if s.r.GPUs == 1 {
		out = append(out, s.onTheHost(p, m)...)
	}
	if lora, ok := s.adapters(p); ok {
		verdict := "fits"
		if lora > s.room {
			verdict = fmt.Sprintf("still %s too much", (lora - s.room).Short())
		}
		add(report.ByPrediction, m.safe-lora, true, "LoRA of rank %d instead of full training: %s, %s", adapterRank, (lora + context).Short(), verdict)
	}
	return out
}

// onTheHost tells what moving the optimizer, the activations or both off the card would do, as far as it is needed.
func (s *search) onTheHost(p point, m memory) []report.Remedy {
	context := s.outside(p)
	var out []report.Remedy
	for _, way := range []struct {
		offload setup.Offload
		what    string
	}{
		{setup.OffloadOptimizer, "optimizer state and step on the host"}, {setup.OffloadActivations, "activations on the host"}, {setup.OffloadBoth, "optimizer and activations on the host"},
	} {
		p.Offload = way.offload
		if p.Offload.Has(setup.OffloadOptimizer) && p.Optimizer.WholeStates() == 0 {
			continue
		}
		o := s.need(p)
		if o.err != nil || o.safe >= m.safe {
			continue
		}
		verdict, enough := "fits", "yes"
		if o.safe > s.room {
			enough = "no"
			verdict = fmt.Sprintf("still %s too much", (o.safe - s.room).Short())
		}
		out = append(out, report.Remedy{
			Action: fmt.Sprintf("%s: %s on the card, %s", way.what, (o.safe + context).Short(), verdict), Saves: m.safe - o.safe, CheckedBy: report.ByArithmetic,
			Command: "plimsoll fit … --offload " + string(way.offload), Enough: enough,
		})
		if o.safe <= s.room {
			break
		}
	}
	return out
}

// adapterRank is the rank LoRA is predicted with: usual, and its own size hardly counts.
const adapterRank = 16

// adapters is what LoRA on the same model needs.
func (s *search) adapters(p point) (units.Bytes, bool) {
	if s.r.GPUs > 1 || !s.r.Source.Adaptable() || s.r.Job.LoRARank > 0 || len(s.r.Job.Freeze) > 0 {
		return 0, false
	}
	p.Adapters = setup.Adapters{LoRARank: adapterRank, LoRATargets: job.DefaultTargets}
	m := s.need(p)
	return m.safe, m.err == nil
}

// smallest is the point that needs least of those that are allowed.
func (s *search) smallest() point {
	a := s.r.Axes
	p := point{
		MicroBatch: a.MicroBatch[0], Precision: lightest(a.Precision, lightness), Checkpointing: setup.None,
		Attn: a.Attn[len(a.Attn)-1], Loop: a.Loop[len(a.Loop)-1], Conf: a.Conf[len(a.Conf)-1], GPUs: s.r.GPUs, Code: s.r.Job.Code, Adapters: s.r.Job.Adapters(),
	}
	if !slices.ContainsFunc(s.r.cuts, setup.Cut.Whole) {
		p.Cut = s.r.cuts[len(s.r.cuts)-1]
	}
	if shared := s.r.contexts(p.Cut); len(shared) > 0 {
		p.Context = slices.Max(shared)
	}
	kinds := s.r.kinds(p.Cut)
	p.Sharding = kinds[len(kinds)-1]
	if slices.Contains(kinds, setup.FSDP2) { // one copy among all
		p.Sharding = setup.FSDP2
	}
	p.Optimizer = lightest(a.Optimizer, func(o torch.Optimizer) int {
		weight := 10 * o.WholeStates()
		if step, _ := o.Step(); step.Holds.Rule == torch.AllAtOnce {
			weight += 5
		}
		return weight
	})
	return p
}

// lightest is the word that weighs least, the first of equals.
func lightest[T any](words []T, weight func(T) int) T {
	return slices.MinFunc(words, func(x, y T) int { return cmp.Compare(weight(x), weight(y)) })
}

// lightness orders precisions by what they keep: autocast has copies of fp32 parameters in 16 bits.
func lightness(p torch.Precision) int {
	n := 2 * p.Params().Bytes()
	if p.Autocast() != "" {
		n++
	}
	return n
}

// smallestCard is the card with the least memory that holds so much.
func smallestCard(need units.Bytes) (gpu.Card, bool) {
	var best gpu.Card
	for _, c := range gpu.Cards() {
		if !c.ROCm && c.Capacity() >= need && (best.Name == "" || c.Capacity() < best.Capacity()) {
			best = c
		}
	}
	return best, best.Name != ""
}

// fewestCards tries powers of two.
func (s *search) fewestCards(p point) int {
	p.Sharding, p.MicroBatch, p.Cut = setup.FSDP2, 1, setup.Cut{}
	for n := max(2, 2*s.r.GPUs); n <= 256; n *= 2 {
		p.GPUs = n
		if m := s.need(p); m.err == nil && m.safe <= s.room {
			return n
		}
	}
	return 0
}
