package plan

import "github.com/plimsoll/plimsoll/internal/torch"

// Two classes of change. What keeps the training the same, up to the rounding any change of kernels brings: micro-batch with accumulation, checkpointing,
// the form of an optimizer (foreach, fused, loop), the attention kernel, allocator settings, the loop's references, offload, sharding. What changes numerics:
// precision, and another kind of optimizer.

// fillNumerics fills precision and optimizer: what the job uses, and where numerics may change, what it might.
func (r *Request) fillNumerics() {
	a := &r.Axes
	if len(a.Precision) == 0 {
		a.Precision = []torch.Precision{r.Job.Precision()}
		if r.Numerics {
			a.Precision = distinct(append(a.Precision, r.precisions()...)...)
		}
	}
	if len(a.Optimizer) == 0 {
		a.Optimizer = r.Job.Optimizer.Forms()
		if r.Numerics && r.Job.LoRARank == 0 { // of adapters there is little state, whatever the optimizer
			kind, _ := r.Job.Optimizer.Kind().Algorithm()
			a.Optimizer = append(a.Optimizer, kind.Lighter...)
		}
	}
}

// precisions the card has units for. Parameters in fp16 are left out: updates smaller than their last bit are lost; ask for them by name.
func (r *Request) precisions() []torch.Precision {
	c := r.Machine.Card
	out := []torch.Precision{torch.PlainFP32}
	if c.TF32 > 0 {
		out = append(out, torch.TF32)
	}
	if c.BF16 > 0 {
		return append(out, torch.AmpBF16, torch.PureBF16)
	}
	if c.FP16 > 0 {
		out = append(out, torch.AmpFP16)
	}
	return out
}

// changesNumerics tells which class a point belongs to.
func (s *search) changesNumerics(p point) bool {
	return p.Precision != s.r.Job.Precision() || p.Optimizer.Kind() != s.r.Job.Optimizer.Kind()
}
