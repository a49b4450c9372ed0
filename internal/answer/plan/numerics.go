package plan

import (
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/model/job"
)

// Two classes of change. What keeps the training the same, up to the rounding any change of kernels brings: micro-batch with accumulation, checkpointing,
// the form of an optimizer (foreach, fused, loop), the attention kernel, allocator settings, the loop's references, offload, sharding. What changes numerics:
// precision, and another kind of optimizer.

// forms are the implementations of an optimizer beside the default: "-fused" and "-loop".
var forms = []string{"", "-fused", "-loop"}

// kind is an optimizer's name without its form.
func kind(optimizer string) string {
	for _, f := range forms[1:] {
		if k, ok := strings.CutSuffix(optimizer, f); ok {
			return k
		}
	}
	return optimizer
}

// sameKind lists the forms of an optimizer, the given one first.
func sameKind(optimizer string) []string {
	out := []string{optimizer}
	for _, f := range forms {
		if name := kind(optimizer) + f; name != optimizer && slices.Contains(job.Optimizers(), name) {
			out = append(out, name)
		}
	}
	return out
}

// lighter are kinds with less state that people train the same models with.
var lighter = map[string][]string{
	"adamw": {"adamw-8bit", "adafactor"},
	"adam":  {"adafactor"},
}

// fillNumerics fills precision and optimizer: what the job uses, and where numerics may change, what it might.
func (r *Request) fillNumerics() {
	a := &r.Axes
	if len(a.Precision) == 0 {
		a.Precision = []string{r.Job.Precision()}
		if r.Numerics {
			a.Precision = distinct(append(a.Precision, r.precisions()...)...)
		}
	}
	if len(a.Optimizer) == 0 {
		a.Optimizer = sameKind(r.Job.Optimizer)
		if r.Numerics {
			a.Optimizer = append(a.Optimizer, lighter[kind(r.Job.Optimizer)]...)
		}
	}
}

// precisions the card has units for. Parameters in fp16 are left out: updates smaller than their last bit are lost; ask for them by name.
func (r *Request) precisions() []string {
	c := r.Machine.Card
	out := []string{"fp32"}
	if c.TF32 > 0 {
		out = append(out, "tf32")
	}
	if c.BF16 > 0 {
		return append(out, "amp-bf16", "bf16")
	}
	if c.FP16 > 0 {
		out = append(out, "amp-fp16")
	}
	return out
}

// changesNumerics tells which class a point belongs to.
func (s *search) changesNumerics(p point) bool {
	return p.precision != s.r.Job.Precision() || kind(p.optimizer) != kind(s.r.Job.Optimizer)
}
