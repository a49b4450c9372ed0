package plan

import (
	"fmt"
	"slices"

	"github.com/plimsoll/plimsoll/internal/answer/cost"
	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/model/shard"
)

// layout is how several cards cut the model: tensor of them share every layer, stages of them follow each other; 0 where there is nothing to share.
// What is left sees different data.
type layout struct{ tensor, stages int }

// whole is the layout of a model that is not cut.
var whole layout

// layoutOf gives a layout its one form.
func layoutOf(tensor, stages int) layout {
	if tensor == 1 {
		tensor = 0
	}
	if stages == 1 {
		stages = 0
	}
	return layout{tensor, stages}
}

func (l layout) cards() int { return max(l.tensor, 1) * max(l.stages, 1) }

// mostTensor is how far layers are cut unless it is asked for: their all-reduces belong inside a machine, which has eight cards.
const mostTensor = 8

// fillLayouts keeps the layouts that divide cards, model and batch.
func (r *Request) fillLayouts() error {
	a := &r.Axes
	asked := len(a.Tensor) > 0 || len(a.Stages) > 0
	for _, n := range slices.Concat(a.Tensor, a.Stages) {
		if n < 1 {
			return fmt.Errorf("%d cards to cut the model among: there is at least one", n)
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
	r.layouts = nil
	var last error
	for _, tensor := range a.Tensor {
		for _, stages := range a.Stages {
			l := layoutOf(tensor, stages)
			if err := r.possible(l); err != nil {
				if last == nil || l == whole {
					last = err
				}
				continue
			}
			r.layouts = append(r.layouts, l)
		}
	}
	if len(r.layouts) == 0 {
		return last
	}
	return nil
}

// possible tells why a layout is none.
func (r *Request) possible(l layout) error {
	if r.GPUs%l.cards() != 0 {
		return fmt.Errorf("%d cards cannot be cut into groups of tensor parallel %d and %d stages", r.GPUs, max(l.tensor, 1), max(l.stages, 1))
	}
	if l != whole {
		if _, err := predict.Divide(r.Source, l.tensor, l.stages); err != nil {
			return err
		}
	}
	if ranks := r.GPUs / l.cards(); r.Effective%ranks != 0 {
		return fmt.Errorf("an effective batch of %d cannot be divided among %d cards", r.Effective, ranks)
	}
	if len(r.kinds(l)) == 0 {
		return fmt.Errorf("a model cut among cards is combined with %s alone, not with %v", cutKinds(l), r.Axes.Sharding)
	}
	return nil
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
func cutKinds(l layout) []string {
	if l.tensor > 1 {
		return []string{"fsdp2"}
	}
	return []string{"ddp", "fsdp2"}
}

// kinds are the ways to see different data that a layout leaves.
func (r *Request) kinds(l layout) []string {
	if r.GPUs == l.cards() {
		return []string{""}
	}
	known := r.Axes.Sharding
	if len(known) == 0 {
		known = shard.Kinds()
	}
	if l == whole {
		return known
	}
	return slices.DeleteFunc(slices.Clone(known), func(k string) bool { return !slices.Contains(cutKinds(l), k) })
}

// batches are the micro-batches a layout can run: accumulation gives the effective batch, and every stage has one to work on (Schedule1F1B refuses
// fewer micro-batches than stages).
func (r *Request) batches(l layout) []int {
	each := r.Effective / (r.GPUs / l.cards())
	return slices.DeleteFunc(slices.Clone(r.Axes.MicroBatch), func(n int) bool { return each%n != 0 || each/n < l.stages })
}

// ranks is how many groups of cards see different data.
func (s *search) ranks(l layout) int { return s.r.GPUs / l.cards() }

// times is how many micro-batches of a point make its part of the effective batch.
func (s *search) times(p point) int { return s.r.Effective / s.ranks(p.layout) / p.batch }

// part is what a layout leaves of the model on one card.
func (s *search) part(l layout) predict.Source {
	if l == whole {
		return s.r.Source
	}
	if src, ok := s.parts[l]; ok {
		return src
	}
	src, _ := predict.Divide(s.r.Source, l.tensor, l.stages) // possible has tried it
	s.parts[l] = src
	return src
}

// depth is how many layers of a card can be checkpointed.
func (s *search) depth(l layout) int { return (s.layers + max(l.stages, 1) - 1) / max(l.stages, 1) }

// states is the number of elements between two layers.
func (s *search) states(p point) float64 {
	return float64(p.batch) * float64(s.r.Job.Seq) * float64(s.r.Source.Config.Int("hidden_size"))
}

// reduced is what a cut layer's all-reduces take of one micro-batch, in seconds: nothing hides them. again: checkpointed layers, -1 for all.
func (s *search) reduced(p point, again int) float64 {
	if p.tensor < 2 {
		return 0
	}
	depth := s.depth(p.layout)
	if again < 0 {
		again = depth
	}
	computed, _ := widths(p.precision)
	times := again*cost.Reductions(true) + (depth-again)*cost.Reductions(false)
	return float64(times) * cost.AllReduce(s.r.Machine.Card, cost.Ranks{Count: p.tensor, Span: p.tensor}, s.states(p)*computed)
}

// sent is what a stage waits for of one micro-batch: hidden states go to the next stage, their gradients come back.
func (s *search) sent(p point) float64 {
	if p.stages < 2 {
		return 0
	}
	_, carried := widths(p.precision)
	return 2 * cost.Send(s.r.Machine.Card, p.cards(), s.states(p)*carried)
}

// widths are the bytes of what a layer's products give and of the states between layers: autocast computes in 16 bits and keeps the sums in fp32.
func widths(precision string) (computed, carried float64) {
	switch precision {
	case "amp-bf16", "amp-fp16":
		return 2, 4
	case "bf16", "fp16":
		return 2, 2
	}
	return 4, 4
}

// communicated is compute with the collectives of an optimizer step: among ranks that see different data they hide behind it, except in a pipeline, which
// gathers before its first and reduces after its last micro-batch.
func (s *search) communicated(p point, compute float64, t cost.Trained) float64 {
	ranks := s.ranks(p.layout)
	if ranks < 2 {
		return compute
	}
	kind := p.sharding
	if p.stages > 1 {
		kind = "ddp" // as many bytes: one gather and one scatter
	}
	collectives := cost.Collectives(s.r.Machine.Card, kind, cost.Ranks{Count: ranks, Span: s.r.GPUs}, s.times(p), t)
	if p.stages > 1 {
		return compute + collectives
	}
	return cost.Overlapped(compute, collectives)
}
