package eager

import (
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/tensor"
)

// optimizers are the rules by name. torch/optim (2.11): state appears at the first step; on CUDA the foreach
// implementation is the default, its temporaries exist for all parameters at once.
var optimizers = map[string]func(*optimizer){
	"sgd":         func(*optimizer) {},
	"sgdm":        momentumRule,
	"adam":        adamForeach,
	"adamw":       adamForeach,
	"adamw-fused": adamFused,
	"adamw-loop":  adamLoop,
}

// OptimizerNames lists the optimizers that are known.
func OptimizerNames() string {
	var names []string
	for n := range optimizers {
		names = append(names, n)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// momentumRule clones each gradient as the first momentum (_multi_tensor_sgd).
func momentumRule(o *optimizer) {
	for _, i := range o.active() {
		if o.state[i] == nil {
			o.keep(i, "momentum_buffer")
		}
	}
}

func adamState(o *optimizer, which []int, deviceStep bool) {
	for _, i := range which {
		if o.state[i] != nil {
			continue
		}
		if deviceStep {
			o.keepOf(i, "step", tensor.Float32)
		}
		o.keep(i, "exp_avg")
		o.keep(i, "exp_avg_sq")
	}
}

// adamForeach holds the square roots of all second moments at once (_multi_tensor_adam, exp_avg_sq_sqrt).
func adamForeach(o *optimizer) {
	which := o.active()
	adamState(o, which, false)
	drop(o.temporary("exp_avg_sq_sqrt", which)...)
}

// adamFused has no temporaries; its step count is a scalar on the card.
func adamFused(o *optimizer) { adamState(o, o.active(), true) }

// adamLoop holds two temporaries of the current parameter; the name denom still refers to the previous one's
// (_single_tensor_adam: denom = (exp_avg_sq.sqrt() / bias_correction2_sqrt).add_(eps)).
func adamLoop(o *optimizer) {
	which := o.active()
	adamState(o, which, false)
	var denom *Tensor
	for k := range which {
		root := o.temporary("denom", which[k:k+1])[0]
		next := o.temporary("denom", which[k:k+1])[0].Retain()
		drop(root)
		if denom != nil {
			denom.Release()
		}
		denom = next
	}
	if denom != nil {
		denom.Release()
	}
}
