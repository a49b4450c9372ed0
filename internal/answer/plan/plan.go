// Package plan finds the fastest configuration of a training job that fits.
//
// It takes a job, its model, a machine and the axes that may vary (micro-batch, precision, checkpointing, optimizer, attention, allocator settings,
// loop, offload, sharding) and returns a report.Fit: plans fastest first, why the obvious alternatives lose, and, where nothing fits, the least
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
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/torch"
)

// Axes limit the search. An empty axis is free: the search fills it.
type Axes struct {
	MicroBatch    []int
	Precision     []torch.Precision
	Checkpointing []setup.Checkpointing
	Optimizer     []torch.Optimizer
	Attn          []setup.Attention
	Loop          []setup.Loop
	Conf          []string // allocator settings; "" is none
	Offload       []setup.Offload
	Sharding      []setup.Sharding // with several cards
	Tensor        []int            // cards that share every layer
	Stages        []int            // of a pipeline
	Context       []int            // cards that divide the tokens of every sample
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
	Numerics  bool                    // precision and the kind of optimizer may change
	Can       func(setup.Setup) error // why the format that is to be written has no words for a setup; nil: it has for all
	Plans     int                     // how many plans are wanted; 0: all, where the grid is small

	// Notes of earlier searches about the same job on the same machine; nil: there were none.
	Notes *Notes

	within       float64     // seconds of a step beyond which the first plan is of no interest; 0: of any
	offloadAsked bool        // the user named the axis
	cuts         []setup.Cut // that cards, model and batch allow
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
	if err := r.fillCuts(); err != nil {
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
	if c := r.Source.Config; c != nil && c.Family.Eager {
		if len(a.Attn) > 0 && !slices.Contains(a.Attn, setup.EagerAttention) {
			return fmt.Errorf("transformers has no %s attention for %s; --attn %s", a.Attn[0], c.Type, setup.EagerAttention)
		}
		r.Job.Attn, a.Attn = setup.EagerAttention, []setup.Attention{setup.EagerAttention}
	}
	if len(a.Attn) == 0 {
		a.Attn = distinct(r.Job.Attn, setup.SDPA)
		if r.Source.Graph != nil {
			a.Attn = []setup.Attention{""}
		}
	}
	if len(a.Loop) == 0 {
		a.Loop = distinct(r.Job.Loop, setup.Function)
	}
	if len(a.Conf) == 0 {
		a.Conf = []string{r.Conf}
		if r.Conf == "" && !r.Machine.Card.ROCm {
			a.Conf = append(a.Conf, torch.ExpandableSegments)
		}
	}
	r.offloadAsked = len(a.Offload) > 0
	if len(a.Offload) == 0 {
		a.Offload = []setup.Offload{setup.OffloadNone}
		if r.GPUs == 1 && r.Job.Optimizer.WholeStates() > 0 && r.Job.LoRARank == 0 { // of adapters there is little state
			a.Offload = append(a.Offload, setup.OffloadOptimizer)
		}
	}
	return nil
}

// fillBatches keeps the micro-batches that divide the effective batch.
func (r *Request) fillBatches() error {
	each := 0 // samples of the cards that see the most
	for _, p := range r.layouts() {
		each = max(each, r.Effective/p.Groups())
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
	for _, p := range r.layouts() {
		kept = append(kept, r.batches(p)...)
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
		a.Checkpointing = []setup.Checkpointing{setup.None}
		if layers > 0 {
			a.Checkpointing = append(a.Checkpointing, setup.Full)
		}
		if layers > 1 {
			a.Checkpointing = append(a.Checkpointing, setup.Selective)
		}
		return nil
	}
	if layers == 0 {
		a.Checkpointing = slices.DeleteFunc(slices.Clone(a.Checkpointing), func(c setup.Checkpointing) bool { return c != setup.None })
		if len(a.Checkpointing) == 0 {
			return fmt.Errorf("this model cannot be checkpointed here: a graph does not say which calls may be; name modules in the job's checkpoint_modules")
		}
	}
	return nil
}

func (r *Request) fillSharding() error {
	a := &r.Axes
	if r.GPUs == 1 {
		a.Sharding = []setup.Sharding{setup.Unsharded}
		return nil
	}
	if len(a.Sharding) == 0 {
		a.Sharding = slices.DeleteFunc(slices.Clone(setup.Shardings()), func(k setup.Sharding) bool { return k == setup.HSDP && r.GPUs <= setup.PerMachine })
	}
	for _, kind := range a.Sharding {
		if err := (shard.Plan{Kind: kind, Ranks: r.GPUs}).Check(); err != nil {
			return err
		}
	}
	return nil
}

// distinct are the words that are not empty, each once.
func distinct[T ~string](words ...T) []T {
	var out []T
	for _, w := range words {
		if w != "" && !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}
