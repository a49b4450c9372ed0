package wholerun

import (
	"fmt"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/model/lengths"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Fill makes a prediction of one step that of a run: its peaks and its verdict are the run's.
func Fill(r *report.Prediction, run *report.Run, v report.Verdict) {
	context := r.Peak.Device - r.Peak.Reserved
	r.Run, r.Verdict, r.Fits = run, v, v.Runs()
	r.Limited = &run.Limited
	r.Peak = report.PredictedPeak{Allocated: run.MaxAllocated, Reserved: run.MaxReserved, Device: run.MaxReserved + context}
	r.Safe = max(run.MaxReserved, r.Safe)
	r.Largest = nil
}

// Remedies are changes under which a run that dies completes, each simulated in the orders that were asked for; those that do not suffice are
// named too, so that nobody tries them.
func (s *Sim) Remedies(q Question) []report.RunRemedy {
	if q.Batches != nil {
		return s.settings(q)
	}
	out := s.settings(q)
	add := func(action, flags string, other Question) {
		if r, ok := s.try(action, flags, other); ok {
			out = append(out, r)
		}
	}
	if r, ok := s.truncated(q); ok {
		out = append(out, r)
	}
	if q.Batching.Sampler == lengths.Random || q.Batching.Sampler == lengths.Sequential {
		other := q
		other.Batching.Sampler = lengths.Grouped
		add("batches of similar lengths (group_by_length=True)", "--sampler grouped", other)
		other = q
		other.Batching.Sampler, other.Batching.Tokens = lengths.Tokens, s.tokens(q)
		add(fmt.Sprintf("batches of at most %s padded tokens", units.Count(other.Batching.Tokens)), fmt.Sprintf("--sampler tokens --max-tokens %d", other.Batching.Tokens), other)
	}
	if half := q.Batching.Batch / 2; half > 0 {
		other := q
		other.Batching.Batch = half
		other.Job.Accumulate = 2 * max(q.Job.Accumulate, 1)
		if other.Steps > 0 {
			other.Steps *= 2
		}
		if r, ok := NewSim(other.Job, q.Source, q.Machine).try(fmt.Sprintf("batch %d, accumulated over twice as many", half), fmt.Sprintf("--batch %d --accumulate %d", half, other.Job.Accumulate), other); ok {
			out = append(out, r)
		}
	}
	return out
}

// settings are the changes that need no other batches.
func (s *Sim) settings(q Question) []report.RunRemedy {
	var out []report.RunRemedy
	if !q.Machine.Conf.Expandable {
		other := q
		other.Machine.Conf.Expandable = true
		if r, ok := s.try("PYTORCH_CUDA_ALLOC_CONF="+torch.ExpandableSegments, "--conf "+torch.ExpandableSegments, other); ok {
			out = append(out, r)
		}
	}
	return out
}

// try simulates a run that was changed.
func (s *Sim) try(action, flags string, q Question) (report.RunRemedy, bool) {
	r, v, err := s.Answer(q)
	if err != nil {
		return report.RunRemedy{}, false
	}
	return report.RunRemedy{
		Action: action, Flags: flags, Reserved: r.Limited.Reserved, Retries: r.Limited.Retries, Failing: r.Failing, Orders: r.Orders, Completes: v.Runs(),
	}, true
}

// truncated is the run with samples cut at a length at which the orders complete: what one order completes with, and less where others do not.
func (s *Sim) truncated(q Question) (report.RunRemedy, bool) {
	n, ok := s.cut(q)
	var r report.RunRemedy
	for tries := 0; ok && tries < 4; tries++ {
		other := q
		other.Lengths.Cap = n
		if r, ok = s.try(fmt.Sprintf("truncate samples at %s tokens", units.Count(n)), fmt.Sprintf("--truncate %d", n), other); r.Completes {
			break
		}
		n = n * 15 / 16 / 8 * 8
		ok = ok && n >= 8
	}
	return r, r.Action != ""
}

// cut is the longest length at which samples can be truncated so that one order of them completes; a run with shorter samples needs less, nearly always.
func (s *Sim) cut(q Question) (int, bool) {
	one := q
	one.Orders = 1
	low, high := 0, q.Lengths.longest(q.Steps*max(q.Batching.Batch, 1), q.Batching.Seed)
	for high-low > max(8, high/64) {
		middle := (low + high) / 2 / 8 * 8
		one.Lengths.Cap = middle
		_, v, err := s.Answer(one)
		if err != nil {
			return 0, false
		}
		if v.Runs() {
			low = max(middle, low+1)
		} else {
			high = middle
		}
	}
	return low / 8 * 8, low >= 8
}

func (l Lengths) longest(n int, seed uint64) int {
	most := 0
	for _, x := range l.of(max(n, 1), seed) {
		most = max(most, x)
	}
	return most
}

// tokens is a number of padded tokens to begin with: what a batch of the mean length has, and room for the longest sample.
func (s *Sim) tokens(q Question) int {
	all := q.Lengths.of(max(q.Steps, 1)*max(q.Batching.Batch, 1), q.Batching.Seed)
	sum, most := 0, 0
	for _, n := range all {
		sum, most = sum+n, max(most, n)
	}
	return max(2*q.Batching.Batch*sum/len(all), most)
}
