package predict

import (
	"slices"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/model/job"
)

// Batches predicts a job with doubling batches, from one to the largest that fits and a little beyond. A batch that cannot be computed is
// left out; without a largest there is only the job's own, and no list.
func Batches(j job.Job, src Source, m Machine, most *report.Largest) []report.BatchNeed {
	if most == nil {
		return nil
	}
	var out []report.BatchNeed
	for _, n := range ladder(j.Batch, most.Batch) {
		other := j
		other.Batch = n
		res, err := Run(other, src, m)
		if err != nil {
			continue
		}
		r := &res.Report
		out = append(out, report.BatchNeed{
			Batch: n, Own: n == j.Batch, Peak: r.Peak, Safe: r.Safe, Phase: r.Phase, Step: r.Step, ByCategory: r.ByCategory, Fits: r.Fits, Verdict: r.Verdict,
		})
	}
	return out
}

// ladder lists the batches worth looking at: powers of two as far as four times what fits, both sides of the limit, and the job's own.
func ladder(own, most int) []int {
	out := []int{own, most, most + 1}
	for n := 1; n <= min(max(4*most, own), maxBatch); n *= 2 {
		out = append(out, n)
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return slices.DeleteFunc(out, func(n int) bool { return n < 1 || n > maxBatch })
}
