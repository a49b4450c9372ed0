package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/gpu"
	"github.com/plimsoll/plimsoll/internal/units"
)

// alternatives are what one would try first, and why it loses against the chosen plan.
func (s *search) alternatives(best candidate) []report.Alternative {
	out := []report.Alternative{}
	add := func(what string, p point, layers int) {
		d, err := s.time(p, layers)
		if err != nil {
			return
		}
		a := report.Alternative{What: what, StepMS: 1000 * d.total}
		m := s.need(s.key(p, layers))
		switch {
		case m.err != nil:
			return
		case m.safe > s.room:
			a.Why = fmt.Sprintf("does not fit: %s too much", (m.safe - s.room).Short())
		case d.total > best.took.total:
			a.Why = fmt.Sprintf("%.2f× the time", d.total/best.took.total)
		default:
			return
		}
		out = append(out, a)
	}
	j := s.r.Job
	simple := point{precision: best.precision, checkpointing: None, optimizer: j.Optimizer, attn: best.attn, loop: best.loop, conf: s.r.Conf, sharding: best.sharding, layout: best.layout}
	each := s.r.Effective / s.ranks(best.layout)
	if each != best.batch && s.r.fixedBatch() == 0 && slices.Contains(s.r.batches(best.layout), each) {
		simple.batch = each
		add("the whole batch at once, no checkpointing", simple, 0)
		if s.layers > 0 {
			simple.checkpointing = Full
			add("the whole batch at once, every layer checkpointed", simple, -1)
		}
	}
	if best.checkpointing != None {
		if b := s.largestPlain(best); b > 0 && b != best.batch {
			simple.batch, simple.checkpointing = b, None
			add(fmt.Sprintf("halve the batch until it runs without checkpointing (%d × %d)", b, each/b), simple, 0)
		}
	}
	if best.batch != 1 && slices.Contains(s.r.batches(best.layout), 1) {
		simple.batch, simple.checkpointing = 1, None
		add(fmt.Sprintf("one sample at a time (1 × %d)", each), simple, 0)
	}
	return out
}

// largestPlain is the largest micro-batch that fits without checkpointing, 0 where none does.
func (s *search) largestPlain(best candidate) int {
	p := best.point
	p.checkpointing = None
	for _, b := range slices.Backward(s.r.batches(best.layout)) {
		p.batch = b
		if _, ok := s.fits(p, 0); ok {
			return b
		}
	}
	return 0
}

// least is what would do when nothing fits: more cards, a larger card, state on the host, adapters.
func (s *search) least() []report.Remedy {
	p := s.smallest()
	layers := 0
	if s.layers > 0 {
		p.checkpointing, layers = Full, -1
	}
	m := s.need(s.key(p, layers))
	if m.err != nil {
		return nil
	}
	capacity := predict.Capacity(s.r.Machine)
	context := capacity - s.room
	var out []report.Remedy
	add := func(checked string, saves units.Bytes, numerics bool, format string, args ...any) {
		out = append(out, report.Remedy{Action: fmt.Sprintf(format, args...), Saves: saves, CheckedBy: checked, Numerics: numerics})
	}
	add(report.ByPrediction, 0, false, "the least a single card needs for this job as it may be changed: %s (micro-batch %d, %s, %s, checkpointing %s)",
		(m.safe + context).Short(), p.batch, p.precision, p.optimizer, p.checkpointing)
	if c, ok := smallestCard(m.safe + context); ok {
		add(report.ByPrediction, 0, false, "smallest card of the catalogue that holds it: %s (%s)", c.Title, c.Capacity().Short())
	}
	if n := s.fewestCards(p, layers); n > 0 {
		add(report.ByArithmetic, 0, false, "fewest cards like this one: %d with FSDP2", n)
	}
	if s.r.GPUs == 1 {
		out = append(out, s.onTheHost(p, layers, m)...)
	}
	if lora, ok := s.adapters(p, layers); ok {
		verdict := "fits"
		if lora > s.room {
			verdict = fmt.Sprintf("still %s too much", (lora - s.room).Short())
		}
		add(report.ByPrediction, m.safe-lora, true, "LoRA of rank %d instead of full training: %s, %s", adapterRank, (lora + context).Short(), verdict)
	}
	return out
}

// onTheHost tells what moving the optimizer, the activations or both off the card would do, as far as it is needed.
func (s *search) onTheHost(p point, layers int, m memory) []report.Remedy {
	context := predict.Capacity(s.r.Machine) - s.room
	var out []report.Remedy
	for _, way := range []struct{ offload, what string }{
		{OffloadOptimizer, "optimizer state and step on the host"}, {OffloadActivations, "activations on the host"}, {OffloadBoth, "optimizer and activations on the host"},
	} {
		p.offload = way.offload
		if p.onHost(OffloadOptimizer) && states[kind(p.optimizer)] == 0 {
			continue
		}
		o := s.need(s.key(p, layers))
		if o.err != nil || o.safe >= m.safe {
			continue
		}
		verdict := "fits"
		if o.safe > s.room {
			verdict = fmt.Sprintf("still %s too much", (o.safe - s.room).Short())
		}
		out = append(out, report.Remedy{
			Action: fmt.Sprintf("%s: %s on the card, %s", way.what, (o.safe + context).Short(), verdict), Saves: m.safe - o.safe, CheckedBy: report.ByArithmetic,
			Command: "plimsoll fit … --offload " + way.offload,
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
func (s *search) adapters(p point, layers int) (units.Bytes, bool) {
	if s.r.GPUs > 1 || s.r.Source.Config == nil || s.r.Job.LoRARank > 0 || len(s.r.Job.Freeze) > 0 {
		return 0, false
	}
	k := s.key(p, layers)
	k.adapters = adapterRank
	m := s.need(k)
	return m.safe, m.err == nil
}

// smallest is the point that needs least of those that are allowed.
func (s *search) smallest() point {
	a := s.r.Axes
	width := map[string]int{"fp32": 4, "tf32": 4, "amp-bf16": 5, "amp-fp16": 5, "bf16": 2, "fp16": 2}
	lightest := func(names []string, weight func(string) int) string {
		return slices.MinFunc(names, func(x, y string) int { return cmp.Compare(weight(x), weight(y)) })
	}
	p := point{
		batch: a.MicroBatch[0], precision: lightest(a.Precision, func(w string) int { return width[w] }), checkpointing: None,
		attn: a.Attn[len(a.Attn)-1], loop: a.Loop[len(a.Loop)-1], conf: a.Conf[len(a.Conf)-1], layout: whole,
	}
	if !slices.Contains(s.r.layouts, whole) {
		p.layout = s.r.layouts[len(s.r.layouts)-1]
	}
	kinds := s.r.kinds(p.layout)
	p.sharding = kinds[len(kinds)-1]
	p.optimizer = lightest(a.Optimizer, func(w string) int {
		n := 10 * states[kind(w)]
		if kind(w) == w {
			n += 5 // foreach holds temporaries of all parameters
		}
		return n
	})
	return p
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
func (s *search) fewestCards(p point, layers int) int {
	k := s.key(p, layers)
	k.sharding, k.batch, k.layout = "fsdp2", 1, whole
	for n := max(2, 2*s.r.GPUs); n <= 256; n *= 2 {
		k.ranks = n
		if m := s.need(k); m.err == nil && m.safe <= s.room {
			return n
		}
	}
	return 0
}
