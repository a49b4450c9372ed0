package eager

import (
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// recipe is one optimizer: what exists before the first step, and what a step does.
type recipe struct {
	construct func(*optimizer)
	step      func(*optimizer)
}

// optimizers are the recipes by name (torch/optim, 2.11, default arguments). State appears at the first step, Adagrad's at
// construction. On CUDA the foreach implementation is the default: its temporaries exist for all parameters at once.
var optimizers = map[string]recipe{
	"sgd":           {step: func(*optimizer) {}},
	"sgdm":          {step: momentum},
	"adam":          {step: foreach(1, "exp_avg", "exp_avg_sq")},
	"adam-fused":    {step: fused("exp_avg", "exp_avg_sq")},
	"adam-loop":     {step: oneByOne(2, 1, "exp_avg", "exp_avg_sq")},
	"adamw":         {step: foreach(1, "exp_avg", "exp_avg_sq")},
	"adamw-fused":   {step: fused("exp_avg", "exp_avg_sq")},
	"adamw-loop":    {step: oneByOne(2, 1, "exp_avg", "exp_avg_sq")},
	"amsgrad":       {step: foreach(1, "exp_avg", "exp_avg_sq", "max_exp_avg_sq")},
	"amsgrad-fused": {step: fused("exp_avg", "exp_avg_sq", "max_exp_avg_sq")},
	"amsgrad-loop":  {step: oneByOne(2, 1, "exp_avg", "exp_avg_sq", "max_exp_avg_sq")},
	"nadam":         {step: foreach(1, "exp_avg", "exp_avg_sq")},
	"nadam-loop":    {step: oneByOne(2, 1, "exp_avg", "exp_avg_sq")},
	"radam":         {step: foreach(1, "exp_avg", "exp_avg_sq")},
	"radam-loop":    {step: oneByOne(2, 0, "exp_avg", "exp_avg_sq")},
	"adamax":        {step: foreach(1, "exp_avg", "exp_inf")},
	"adamax-loop":   {step: oneByOne(1, 0, "exp_avg", "exp_inf")},
	"adagrad":       {construct: sums, step: foreach(2)},
	"adagrad-loop":  {construct: sums, step: oneByOne(1, 1)},
	"adadelta":      {step: foreach(2, "square_avg", "acc_delta")},
	"adadelta-loop": {step: oneByOne(2, 1, "square_avg", "acc_delta")},
	"rmsprop":       {step: foreach(1, "square_avg")},
	"rmsprop-loop":  {step: oneByOne(1, 1, "square_avg")},
	"asgd":          {step: averaged},
	"rprop":         {step: rprop},
	"adafactor":     {step: adafactor},
	"adamw-8bit":    {construct: quantileMaps, step: adam8bit},
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

// states makes what each of some parameters keeps, parameter by parameter (_init_group).
func (o *optimizer) states(which []int, names ...string) {
	for _, i := range which {
		if o.state[i] != nil || len(names) == 0 {
			continue
		}
		for _, n := range names {
			o.keep(i, n)
		}
	}
}

// foreach holds some lists of temporaries for all parameters at once (Adam: exp_avg_sq_sqrt; Adagrad: std and numerator;
// Adadelta: std and deltas).
func foreach(lists int, names ...string) func(*optimizer) {
	return func(o *optimizer) {
		which := o.active()
		o.states(which, names...)
		var held []*Tensor
		for range lists {
			held = append(held, o.temporary("foreach", which)...)
		}
		slices.Reverse(held) // a Python list lets its last member go first
		drop(held...)
	}
}

// fused has no temporaries; the step count is a scalar on the card.
func fused(names ...string) func(*optimizer) {
	return func(o *optimizer) {
		which := o.active()
		for _, i := range which {
			if o.state[i] == nil {
				o.keepOf(i, "step", tensor.Float32)
				for _, n := range names {
					o.keep(i, n)
				}
			}
		}
	}
}

// oneByOne is foreach=False: some temporaries of the current parameter at once, and where named ones outlive the loop's turn,
// the previous parameter's as well (_single_tensor_adam: denom = (exp_avg_sq.sqrt() / bias_correction2_sqrt).add_(eps)).
func oneByOne(temps, named int, names ...string) func(*optimizer) {
	return func(o *optimizer) {
		which := o.active()
		o.states(which, names...)
		var last *Tensor
		for k := range which {
			var now []*Tensor
			for range temps {
				now = append(now, o.temporary("loop", which[k:k+1])...)
			}
			if named > 0 {
				if last != nil {
					last.Release()
				}
				last = now[temps-1].Retain()
			}
			drop(now...)
		}
		if last != nil {
			last.Release()
		}
	}
}

// momentum clones each gradient as the first momentum (_multi_tensor_sgd).
func momentum(o *optimizer) { o.states(o.active(), "momentum_buffer") }

// sums is Adagrad's state, made when the optimizer is.
func sums(o *optimizer) {
	for i := range o.params {
		o.keep(i, "sum")
	}
}

// averaged is ASGD: an average, and step count, rate and weight as scalars on the card.
func averaged(o *optimizer) {
	which := o.active()
	for _, i := range which {
		if o.state[i] == nil {
			o.keepOf(i, "step", tensor.Float32)
			o.keepOf(i, "eta", tensor.Float32)
			o.keepOf(i, "mu", tensor.Float32)
			o.keep(i, "ax")
		}
	}
	drop(o.temporary("foreach", which)...)
}

// rprop holds the signs of all parameters, and for one at a time a torch.where with its mask (_multi_tensor_rprop).
func rprop(o *optimizer) {
	which := o.active()
	o.states(which, "prev", "step_size")
	signs := o.temporary("signs", which)
	for _, i := range which {
		mask := o.p.emptyOf(tensor.Bool, o.params[i].Sizes...)
		drop(append(o.temporary("where", []int{i}), mask)...)
	}
	drop(signs...)
}

// adafactor runs parameter by parameter by default (_single_tensor_adafactor). The names var_estimate and update
// still refer to the previous parameter's update while the current one is computed.
func adafactor(o *optimizer) {
	p := o.p
	which := o.active()
	for _, i := range which {
		o.factorState(i)
	}
	c := p.Function()
	var row, col, estimate, update, squared *Tensor
	for _, i := range which {
		g := o.params[i].grad
		p.op = "adafactor"
		drop(p.reduceDims(o.params[i], seqDims(g.Rank()), g.DType))
		if g.Rank() > 1 {
			c.Set(&row, p.reduceDims(g, []int{g.Rank() - 1}, g.DType))
			c.Set(&col, p.reduceDims(g, []int{g.Rank() - 2}, g.DType))
			c.Set(&estimate, Matmul(o.state[i][0], o.state[i][1]))
			drop(p.reduceDims(o.state[i][0], []int{g.Rank() - 2}, g.DType))
		} else {
			c.Set(&squared, p.empty(g.Like(), g.DType))
			c.Set(&estimate, p.empty(g.Like(), g.DType))
		}
		c.Set(&update, estimate)
		drop(p.reduceDims(update, seqDims(g.Rank()), g.DType))
	}
	c.ReturnAll()
}

// factorState is a row and a column vector for matrices, a full variance for vectors.
func (o *optimizer) factorState(i int) {
	t := o.params[i]
	if o.state[i] != nil {
		return
	}
	if t.Rank() < 2 {
		o.keep(i, "variance")
		return
	}
	rows, cols := slices.Clone(t.Sizes), slices.Clone(t.Sizes)
	rows[t.Rank()-1], cols[t.Rank()-2] = 1, 1
	o.keepOf(i, "row_var", t.DType, rows...)
	o.keepOf(i, "col_var", t.DType, cols...)
}

// quantileMaps are bitsandbytes' two tables of 256 values, shared by all parameters.
func quantileMaps(o *optimizer) {
	if len(o.params) > 0 {
		o.shared = append(o.shared, o.p.emptyOf(tensor.Float32, 256).Retain(), o.p.emptyOf(tensor.Float32, 256).Retain())
	}
}

// adam8bit is bitsandbytes' AdamW8bit (optim/optimizer.py): a byte for each of two moments and their maxima by
// blocks of 256; tensors below 4096 elements stay in fp32. In place.
func adam8bit(o *optimizer) {
	for _, i := range o.active() {
		t := o.params[i]
		if o.state[i] != nil {
			continue
		}
		for _, name := range []string{"state1", "state2"} {
			if t.Numel() < 4096 {
				o.keepOf(i, name, tensor.Float32, t.Sizes...)
				continue
			}
			o.keepOf(i, name, tensor.Uint8, t.Sizes...)
			o.keepOf(i, name+"_absmax", tensor.Float32, ceilDiv(t.Numel(), 256))
		}
	}
}
