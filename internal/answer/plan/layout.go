package plan

import (
	"fmt"
	"slices"

	"github.com/plimsoll/plimsoll/internal/answer/cost"
	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/torch"
)

// mostTensor is how far layers are cut unless it is asked for: their all-reduces belong inside a machine, which has eight cards.
const mostTensor = 8

// fillCuts keeps the cuts that divide cards, model and batch.
func (r *Request) fillCuts() error {
	a := &r.Axes
	asked := len(a.Tensor) > 0 || len(a.Stages) > 0
	for _, n := range slices.Concat(a.Tensor, a.Stages) {
		if n < 1 {
			return fmt.Errorf("%d cards to split the model across: must be at least 1", n)
		}
	}
	if len(a.Tensor) == 0 {
		a.Tensor = powers(min(r.GPUs, mostTensor))
	}
	if len(a.Stages) == 0 {
		a.Stages = powers(r.GPUs)
	}
	if !asked && r.Source.Config == nil {
		a.Tensor, a.Stages = []int{1}, []int{1}
	}
	r.cuts = nil
	var last error
	for _, tensor := range a.Tensor {
		for _, stages := range a.Stages {
			c := setup.NewCut(tensor, stages)
			if err := r.possible(c); err != nil {
				if last == nil || c.Whole() {
					last = err
				}
				continue
			}
			r.cuts = append(r.cuts, c)
		}
	}
	if len(r.cuts) == 0 {
		return last
	}
	return nil
}

// possible tells why a model cannot be cut so.
func (r *Request) possible(c setup.Cut) error {
	if r.GPUs%c.Cards() != 0 {
		return fmt.Errorf("%d cards cannot be divided into groups of tensor parallel %d and %d stages", r.GPUs, max(c.Tensor, 1), max(c.Stages, 1))
	}
	if !c.Whole() {
		if _, err := predict.Divide(r.Source, c.Tensor, c.Stages); err != nil {
			return err
		}
	}
	if len(r.contexts(c)) == 0 {
		return r.undivided(c)
	}
	if len(r.kinds(c)) == 0 {
		return fmt.Errorf("a model split across cards can be combined with %s only, not with %v", cutKinds(c), r.Axes.Sharding)
	}
	return nil
}

// contexts are the numbers of cards that may divide a sample, where the others divide the effective batch. Unless it is asked for, only torchtitan's model has any beyond one.
func (r *Request) contexts(c setup.Cut) []int {
	asked := r.Axes.Context
	if len(asked) == 0 {
		asked = []int{1}
		if r.Job.Code == setup.Torchtitan && c.Whole() {
			asked = powers(r.GPUs)
		}
	}
	var out []int
	for _, n := range asked {
		p := r.layout(c, n)
		if n < 1 || p.Ranks()%n != 0 || r.Effective%p.Groups() != 0 || n > 1 && r.Job.Seq%(2*n) != 0 {
			continue
		}
		out = append(out, p.Context)
	}
	return out
}

// undivided says why no number of cards that share a sample divides the work.
func (r *Request) undivided(c setup.Cut) error {
	ranks := r.GPUs / c.Cards()
	if len(r.Axes.Context) > 0 {
		return fmt.Errorf("--context %v: %d cards in such groups, an effective batch of %d and samples of %d tokens, each in two parts for every card of a group, do not divide", r.Axes.Context, ranks, r.Effective, r.Job.Seq)
	}
	return fmt.Errorf("an effective batch of %d cannot be divided among %d cards", r.Effective, ranks)
}

// layout is a point that says how the cards are used.
func (r *Request) layout(c setup.Cut, context int) point {
	p := point{GPUs: r.GPUs, Cut: c}
	if context > 1 {
		p.Context = context
	}
	return p
}

// layouts are all ways to use the cards.
func (r *Request) layouts() []point {
	var out []point
	for _, c := range r.cuts {
		for _, n := range r.contexts(c) {
			out = append(out, r.layout(c, n))
		}
	}
	return out
}

// powers of two up to a number.
func powers(most int) []int {
	var out []int
	for n := 1; n <= most; n *= 2 {
		out = append(out, n)
	}
	return out
}

// cutKinds are the ways to see different data that PyTorch combines with a cut model: fully_shard on a mesh of two dimensions with tensor parallelism, which
// DistributedDataParallel does not know; either of them under a stage (torch/distributed/pipelining/stage.py, 2.11).
func cutKinds(c setup.Cut) []setup.Sharding {
	if c.Tensor > 1 {
		return []setup.Sharding{setup.FSDP2}
	}
	return []setup.Sharding{setup.DDP, setup.FSDP2}
}

// kinds are the ways to see different data that a cut leaves.
func (r *Request) kinds(c setup.Cut) []setup.Sharding {
	if r.GPUs == c.Cards() {
		return []setup.Sharding{setup.Unsharded}
	}
	known := r.Axes.Sharding
	if len(known) == 0 {
		known = setup.Shardings()
	}
	if c.Whole() {
		return known
	}
	return slices.DeleteFunc(slices.Clone(known), func(k setup.Sharding) bool { return !slices.Contains(cutKinds(c), k) })
}

// batches are the micro-batches a cut model can run: accumulation gives the effective batch, and every stage has one to work on (Schedule1F1B refuses
// fewer micro-batches than stages).
func (r *Request) batches(p point) []int {
	each := r.Effective / p.Groups()
	return slices.DeleteFunc(slices.Clone(r.Axes.MicroBatch), func(n int) bool { return each%n != 0 || each/n < p.Stages })
}

// times is how many micro-batches of a point make its part of the effective batch.
func (s *search) times(p point) int { return max(1, s.r.Effective/p.Groups()/p.MicroBatch) }

// part is what a cut leaves of the model on one card.
func (s *search) part(c setup.Cut) predict.Source {
	if c.Whole() {
		return s.r.Source
	}
	if src, ok := s.parts[c]; ok {
		return src
	}
	src, _ := predict.Divide(s.r.Source, c.Tensor, c.Stages) // possible has tried it
	s.parts[c] = src
	return src
}

// depth is how many layers of a card can be checkpointed.
func (s *search) depth(c setup.Cut) int { return (s.layers + max(c.Stages, 1) - 1) / max(c.Stages, 1) }

// states is the number of elements between two layers.
func (s *search) states(p point) float64 {
	return float64(p.MicroBatch) * float64(s.r.Job.Seq) * float64(s.r.Source.Config.Int("hidden_size"))
}

// reduced is what a cut layer's all-reduces take of one micro-batch, in seconds: nothing hides them.
func (s *search) reduced(p point) float64 {
	if p.Tensor < 2 {
		return 0
	}
	depth := s.depth(p.Cut)
	again := p.Layers
	if p.Checkpointing == setup.Full {
		again = depth
	}
	computed, _ := widths(p.Precision)
	times := again*cost.Reductions(true) + (depth-again)*cost.Reductions(false)
	return float64(times) * cost.AllReduce(s.r.Machine.Card, cost.Ranks{Count: p.Tensor, Span: p.Tensor}, s.states(p)*computed)
}

// rotated is what the attention of cards that divide a sample waits for, of one micro-batch: keys and values of all are gathered in forward, again where a layer is computed again, and in
// backward, in which their gradients go round in fp32 (_templated_ring_attention_backward). Nothing is taken to hide it.
func (s *search) rotated(p point) float64 {
	if p.Context < 2 {
		return 0
	}
	c := s.r.Source.Config
	computed, _ := widths(p.Precision)
	heads := float64(max(1, c.Int("num_attention_heads")))
	pair := 2 * s.states(p) / float64(p.Context) * float64(c.Int("num_key_value_heads")) / heads // elements of a card's keys and values
	cards := cost.Ranks{Count: p.Context, Span: p.Context}
	gather := cost.AllReduce(s.r.Machine.Card, cards, pair*computed*float64(p.Context)) / 2
	round := float64(p.Context) * cost.Send(s.r.Machine.Card, p.Context, pair*float64(torch.FP32.Bytes()))
	depth, gathers := s.depth(p.Cut), 2.0
	if p.Checkpointing == setup.Full {
		gathers++
	}
	return float64(depth) * (gathers*gather + round)
}

// sent is what a stage waits for of one micro-batch: hidden states go to the next stage, their gradients come back.
func (s *search) sent(p point) float64 {
	if p.Stages < 2 {
		return 0
	}
	_, carried := widths(p.Precision)
	return 2 * cost.Send(s.r.Machine.Card, p.Cards(), s.states(p)*carried)
}

// widths are the bytes of what a layer's products give and of the states between layers: autocast computes in 16 bits and keeps the sums in fp32.
func widths(p torch.Precision) (computed, carried float64) {
	carried = float64(p.Params().Bytes())
	if cast := p.Autocast(); cast != "" {
		return float64(cast.Bytes()), carried
	}
	return carried, carried
}

// communicated is compute with the collectives of an optimizer step: among ranks that see different data they hide behind it, except in a pipeline, which
// gathers before its first and reduces after its last micro-batch.
func (s *search) communicated(p point, compute float64, t cost.Trained) float64 {
	ranks := p.Ranks()
	if ranks < 2 {
		return compute
	}
	kind := p.Sharding
	if p.Stages > 1 {
		kind = setup.DDP // as many bytes: one gather and one scatter
	}
	collectives := cost.Collectives(s.r.Machine.Card, kind, cost.Ranks{Count: ranks, Span: s.r.GPUs}, s.times(p), t)
	if p.Stages > 1 {
		return compute + collectives
	}
	return cost.Overlapped(compute, collectives)
}
