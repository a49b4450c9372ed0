package plan

import (
	"fmt"

	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// What a question without further flags takes for granted.
const (
	usualSeq   = 2048
	usualBatch = 16
	usualRank  = 16
)

// Usual fills in what a question about a model leaves open: tokens of a sample, and the effective batch. It returns what was assumed.
func Usual(j *job.Job, longest int) []string {
	var said []string
	if j.Seq == 0 {
		j.Seq = usualSeq
		if longest > 0 {
			j.Seq = min(j.Seq, longest)
		}
		said = append(said, fmt.Sprintf("samples of %d tokens (--seq)", j.Seq))
	}
	if j.Batch == 0 {
		j.Batch = usualBatch
		said = append(said, fmt.Sprintf("an effective batch of %d samples (--effective-batch)", j.Batch))
	}
	return said
}

// methods are the ways to fine-tune that are compared, the least change first.
var methods = []struct {
	adapters setup.Adapters
	changes  string
}{
	{setup.Adapters{}, "all weights are trained"},
	{setup.Adapters{LoRARank: usualRank, LoRATargets: "all-linear"}, "adapters of rank 16 in every linear layer are trained, the model is frozen"},
	{setup.Adapters{LoRARank: usualRank, LoRATargets: "all-linear", BaseBits: 4}, "as LoRA, and the frozen model is stored in 4 bits and unpacked for every matrix product"},
}

// Compare answers for full fine-tuning, LoRA and QLoRA. It returns the answer for the first of them that fits, or for full fine-tuning.
func Compare(r Request) (*report.Fit, Request, error) {
	var all []report.Method
	var first *report.Fit
	chosen := r
	for _, m := range methods {
		q := r
		q.Notes = nil
		setAdapters(&q.Job, m.adapters)
		fit, err := Find(q)
		if err != nil {
			return nil, r, err
		}
		one := report.Method{Name: m.adapters.Method(), Changes: m.changes, Fits: AnyFits(fit), Adapters: m.adapters}
		q.reach(&one)
		if one.Fits {
			p := fit.Plans[0]
			one.TokensPerSecond = float64(fit.Effective*r.Job.Seq) / (p.StepMS / 1000)
		}
		all = append(all, one)
		if first == nil || one.Fits && !AnyFits(first) {
			first, chosen = fit, q
		}
	}
	first.Methods = all
	return first, chosen, nil
}

func setAdapters(j *job.Job, a setup.Adapters) { *j = j.With(withAdapters(*j, a)) }

func withAdapters(j job.Job, a setup.Adapters) setup.Setup {
	s := j.Setup()
	s.Adapters = a
	return s
}

// Bounds of the batches and sequences that are tried.
const (
	mostSamples = 1 << 12
	mostTokens  = 1 << 17
)

// reach finds what a method needs at least, the largest batch of the asked sequences, and the longest sequence.
func (r Request) reach(m *report.Method) {
	j := r.Job
	j.Batch, j.Accumulate, j.Checkpointing, j.Layers = 1, 1, true, 0
	if fused, ok := j.Optimizer.With(torch.Fused); ok {
		j.Optimizer = fused
	}
	room := predict.Room(r.Machine)
	needs := func(j job.Job, v *predict.Variants) units.Bytes {
		n, err := v.Need(j, r.Machine.Conf, predict.Spread{})
		if err != nil {
			return room + 1
		}
		if j.LoRARank > 0 {
			n.Safe += units.Bytes(adaptersMargin * float64(n.Safe))
		}
		return n.Safe
	}
	same := predict.NewVariants(r.Source, r.Machine)
	m.Needs = needs(j, same) + predict.Context(r.Machine)
	m.LargestBatch = largest(mostSamples, func(n int) bool {
		k := j
		k.Batch = n
		return needs(k, same) <= room
	})
	m.LongestSeq = 64 * largest(mostTokens/64, func(n int) bool {
		k := j
		k.Seq = 64 * n
		return needs(k, predict.NewVariants(r.Source, r.Machine)) <= room
	})
}

// largest is the largest number up to a limit for which something that holds for all smaller ones holds; within 3 %, 0 where it holds for none.
func largest(limit int, holds func(int) bool) int {
	if !holds(1) {
		return 0
	}
	low, high := 1, 2
	for high <= limit && holds(high) {
		low, high = high, 2*high
	}
	for high = min(high, limit+1); high-low > max(1, low/32); {
		if middle := (low + high) / 2; holds(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}
