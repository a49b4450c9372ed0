// Package plan finds the fastest configuration of a training job that fits.
//
// In go a job, its model, a machine and the axes that may vary (micro-batch, precision, checkpointing, optimizer, attention, allocator settings,
// loop, offload, sharding); out comes a report.Fit: plans fastest first, why the obvious alternatives lose, and, where nothing fits, the least
// that would. The effective batch is kept. Memory is predicted by package predict, time by package cost. Times order the plans; what a plan asks for at
// once is known exactly and leaves out most of those that cannot fit; the fastest of the others go through the allocator until enough are found, so
// few of many configurations are computed. Changes that keep the training the same are told apart from those that change numerics. Goroutines compute
// answers ahead and end before a search goes on. Refused: limits that contradict each other.
package plan

import (
	"fmt"
	"slices"

	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/model/shard"
	"github.com/plimsoll/plimsoll/internal/spelling"
)

// Ways to checkpoint.
const (
	None      = "none"
	Selective = "selective" // the layers that are cheapest to run again, as few as have to be
	Full      = "full"
)

// Expandable is the allocator setting worth trying before anything slower.
const Expandable = "expandable_segments:True"

// What may be on the host.
const (
	OffloadOptimizer   = "optimizer"   // its state and its step
	OffloadActivations = "activations" // what autograd saves: torch.autograd.graph.save_on_cpu
	OffloadBoth        = "both"
)

// Offloads lists the words.
func Offloads() []string { return []string{OffloadOptimizer, OffloadActivations, OffloadBoth} }

// Axes limit the search. An empty axis is free: the search fills it.
type Axes struct {
	MicroBatch    []int
	Precision     []string
	Checkpointing []string
	Optimizer     []string
	Attn          []string
	Loop          []string
	Conf          []string // allocator settings; "" is none
	Offload       []string // "" is none
	Sharding      []string // with several cards
	Tensor        []int    // cards that share every layer
	Stages        []int    // of a pipeline
}

// Request is a question.
type Request struct {
	Job       job.Job // as it is now; checked
	Source    predict.Source
	Machine   predict.Machine
	Conf      string // the machine's allocator settings as text
	Effective int    // samples of one optimizer step over all cards; 0: the job's batch × accumulate × cards
	GPUs      int    // 0 is 1
	Axes      Axes
	Numerics  bool // precision and the kind of optimizer may change
	Plans     int  // how many plans are wanted; 0: all, where the grid is small

	// Notes of earlier searches about the same job on the same machine; nil: there were none.
	Notes *Notes

	offloadAsked bool     // the user named the axis
	layouts      []layout // that cards, model and batch allow
}

// Find searches.
func Find(r Request) (*report.Fit, error) {
	s, err := newSearch(r)
	if err != nil {
		return nil, err
	}
	if err := s.run(); err != nil {
		return nil, err
	}
	return s.answer()
}

// fill completes a request: free axes get what is worth trying.
func (r *Request) fill(layers int) error {
	if r.GPUs == 0 {
		r.GPUs = 1
	}
	if r.GPUs < 0 || r.GPUs > 1<<14 {
		return fmt.Errorf("%d cards: give a number between 1 and %d", r.GPUs, 1<<14)
	}
	if r.Effective == 0 {
		r.Effective = r.Job.Batch * max(r.Job.Accumulate, 1) * r.GPUs
	}
	if r.Effective < 0 || r.Effective > 1<<22 {
		return fmt.Errorf("effective batch %d: give a number between 1 and %d", r.Effective, 1<<22)
	}
	if err := r.fillSharding(); err != nil {
		return err
	}
	if err := r.fillLayouts(); err != nil {
		return err
	}
	if err := r.fillBatches(); err != nil {
		return err
	}
	if err := r.fillCheckpointing(layers); err != nil {
		return err
	}
	r.fillNumerics()
	a := &r.Axes
	if len(a.Attn) == 0 {
		a.Attn = distinct(r.Job.Attn, "sdpa")
		if r.Source.Graph != nil {
			a.Attn = []string{""}
		}
	}
	if len(a.Loop) == 0 {
		a.Loop = distinct(r.Job.Loop, "function")
	}
	if len(a.Conf) == 0 {
		a.Conf = []string{r.Conf}
		if r.Conf == "" && !r.Machine.Card.ROCm {
			a.Conf = append(a.Conf, Expandable)
		}
	}
	r.offloadAsked = len(a.Offload) > 0
	if len(a.Offload) == 0 {
		a.Offload = []string{""}
		if r.GPUs == 1 && states[kind(r.Job.Optimizer)] > 0 {
			a.Offload = append(a.Offload, OffloadOptimizer)
		}
	}
	return nil
}

// fillBatches keeps the micro-batches that divide the effective batch.
func (r *Request) fillBatches() error {
	each := 0 // samples of the cards that see the most
	for _, l := range r.layouts {
		each = max(each, r.Effective/(r.GPUs/l.cards()))
	}
	given := r.Axes.MicroBatch
	if len(given) == 0 {
		for n := 1; n <= each; n++ {
			if each%n == 0 {
				given = append(given, n)
			}
		}
		if fixed := r.fixedBatch(); fixed > 0 {
			given = []int{fixed}
		}
	}
	for _, n := range given {
		if n <= 0 {
			return fmt.Errorf("micro-batch %d: it has at least one sample", n)
		}
	}
	r.Axes.MicroBatch = given
	var kept []int
	for _, l := range r.layouts {
		kept = append(kept, r.batches(l)...)
	}
	if len(kept) == 0 {
		return fmt.Errorf("none of the micro-batches %v divides %d, the effective batch of each card: no accumulation gives it", given, each)
	}
	slices.Sort(kept)
	r.Axes.MicroBatch = slices.Compact(kept)
	return nil
}

// fixedBatch is the batch a graph was exported for, 0 where it is open.
func (r *Request) fixedBatch() int {
	g := r.Source.Graph
	if g == nil || len(g.Symbols) > 0 {
		return 0
	}
	return r.Job.Batch
}

func (r *Request) fillCheckpointing(layers int) error {
	a := &r.Axes
	if len(a.Checkpointing) == 0 {
		a.Checkpointing = []string{None}
		if layers > 0 {
			a.Checkpointing = append(a.Checkpointing, Full)
		}
		if layers > 1 {
			a.Checkpointing = append(a.Checkpointing, Selective)
		}
		return nil
	}
	for _, c := range a.Checkpointing {
		if known := []string{None, Full, Selective}; !slices.Contains(known, c) {
			return fmt.Errorf("checkpointing %.30q is not known%s", c, spelling.Hint(c, known))
		}
	}
	if layers == 0 {
		a.Checkpointing = slices.DeleteFunc(slices.Clone(a.Checkpointing), func(c string) bool { return c != None })
		if len(a.Checkpointing) == 0 {
			return fmt.Errorf("this model cannot be checkpointed here: a graph does not say which calls may be; name modules in the job's checkpoint_modules")
		}
	}
	return nil
}

func (r *Request) fillSharding() error {
	a := &r.Axes
	if r.GPUs == 1 {
		a.Sharding = []string{""}
		return nil
	}
	if len(a.Sharding) == 0 {
		a.Sharding = shard.Kinds()
	}
	for _, kind := range a.Sharding {
		if err := (shard.Plan{Kind: kind, Ranks: r.GPUs}).Check(); err != nil {
			return err
		}
	}
	return nil
}

// distinct are the words that are not empty, each once.
func distinct(words ...string) []string {
	var out []string
	for _, w := range words {
		if w != "" && !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}
