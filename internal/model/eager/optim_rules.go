package eager

import (
	"slices"

	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/torch"
)

// rules play what a step holds beside state (the table of package torch names them), over the parameters that have gradients.
var rules = map[torch.Rule]func(o *optimizer, which []int){
	torch.InPlace: func(*optimizer, []int) {}, torch.AllAtOnce: allAtOnce, torch.OneByOne: oneByOne,
	torch.SignsAndMasks: signsAndMasks, torch.FactoredWalk: factoredWalk, torch.NewtonSchulz: newtonSchulz, torch.Projected: projected,
}

// states makes what each of some parameters keeps, parameter by parameter (_init_group).
func (o *optimizer) states(which []int) {
	for _, i := range which {
		if o.state[i] != nil {
			continue
		}
		if o.form == torch.Fused { // the step count is a scalar on the card
			o.keepOf(i, "step", tensor.Float32)
		}
		for _, s := range o.kind.State {
			o.keepLike(i, s)
		}
	}
}

// keepLike makes one state tensor of a parameter.
func (o *optimizer) keepLike(i int, s torch.State) {
	t := o.params[i]
	switch {
	case s.Like == torch.Scalar:
		o.keepOf(i, s.Name, tensor.Float32)
	case s.Like == torch.Hidden && !o.hidden(i), s.Like == torch.Others && o.hidden(i):
	case s.Like == torch.Factored && t.Rank() >= 2:
		rows, cols := slices.Clone(t.Sizes), slices.Clone(t.Sizes)
		rows[t.Rank()-1], cols[t.Rank()-2] = 1, 1
		o.keepOf(i, "row_"+s.Name, t.DType, rows...)
		o.keepOf(i, "col_"+s.Name, t.DType, cols...)
	case (s.Like == torch.Quantized || s.Like == torch.PagedQuantized) && t.Numel() < 4096:
		o.keepOf(i, s.Name, tensor.Float32, t.Sizes...)
	case s.Like == torch.Quantized || s.Like == torch.PagedQuantized:
		if s.Like == torch.Quantized || t.Numel() < torch.PagedFrom {
			o.keepOf(i, s.Name, tensor.Uint8, t.Sizes...)
		}
		o.keepOf(i, s.Name+"_absmax", tensor.Float32, ceilDiv(t.Numel(), 256))
	case s.Like == torch.Paged:
		if t.Numel() < torch.PagedFrom {
			o.keepOf(i, s.Name, tensor.Float32, t.Sizes...)
		}
	case (s.Like == torch.LowRank || s.Like == torch.Projector) && o.hidden(i):
		o.keepOf(i, s.Name, t.DType, lowRank(t, s.Like == torch.Projector)...)
	case s.Like == torch.Projector:
	default:
		o.keep(i, s.Name)
	}
}

// lowRank is the shape of a projected gradient: the longer side stays, the shorter one is projected (galore_projector.py, proj_type std), or of its projector: in fp32 that is a view of some
// rows or columns of a factor, which keeps all of it, in 16 bits a copy of them.
func lowRank(t *Tensor, projector bool) []int {
	long, short := max(t.Dim(0), t.Dim(1)), min(t.Dim(0), t.Dim(1))
	rank := min(torch.GaLoreRank, short)
	switch {
	case projector && t.DType == tensor.Float32:
		return []int{short, short}
	case projector:
		return []int{short, rank}
	}
	return []int{long, rank}
}

// sharedState is bitsandbytes' table of 256 values for each quantized moment, shared by all parameters.
func (o *optimizer) sharedState() {
	for _, s := range o.kind.State {
		if (s.Like == torch.Quantized || s.Like == torch.PagedQuantized) && len(o.params) > 0 {
			o.shared = append(o.shared, o.p.emptyOf(tensor.Float32, 256).Retain())
		}
	}
}

func everyOne(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// allAtOnce holds some lists of temporaries for all parameters (Adam: exp_avg_sq_sqrt; Adagrad: std and numerator; Adadelta: std and deltas).
func allAtOnce(o *optimizer, which []int) {
	var held []*Tensor
	for range o.how.Holds.Lists {
		held = append(held, o.temporary("foreach", which)...)
	}
	slices.Reverse(held) // a Python list lets its last member go first
	drop(held...)
}

// oneByOne holds the temporaries of one parameter after the other; a named one until the next parameter's replaces it.
func oneByOne(o *optimizer, which []int) {
	var last *Tensor
	for k := range which {
		var now []*Tensor
		for range o.how.Holds.Lists {
			now = append(now, o.temporary("loop", which[k:k+1])...)
		}
		if o.how.Holds.Named {
			if last != nil {
				last.Release()
			}
			last = now[len(now)-1].Retain()
		}
		drop(now...)
	}
	if last != nil {
		last.Release()
	}
}

// signsAndMasks holds the signs of all parameters, and for one at a time a torch.where with its mask (_multi_tensor_rprop).
func signsAndMasks(o *optimizer, which []int) {
	signs := o.temporary("signs", which)
	for _, i := range which {
		mask := o.p.emptyOf(tensor.Bool, o.params[i].Sizes...)
		drop(append(o.temporary("where", []int{i}), mask)...)
	}
	drop(signs...)
}

// factoredWalk goes parameter by parameter (_single_tensor_adafactor). The names var_estimate and update still refer to the previous parameter's update while
// the current one is computed.
func factoredWalk(o *optimizer, which []int) {
	p := o.p
	c := p.Function()
	var row, col, estimate, update, squared *Tensor
	for _, i := range which {
		g := o.params[i].grad
		p.op = o.kind.Name
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

func (o *optimizer) hidden(i int) bool { return torch.IsHidden(o.params[i].Name, o.params[i].Rank()) }

// newtonSchulz is Muon's step (_single_tensor_muon, _zeropower_via_newtonschulz): an update like the gradient, its copy in bfloat16, and in each of five
// iterations two square matrices of the smaller side and the next copy; names of the last iteration live until they are replaced, the last parameter's update
// until the next one's is made. The other parameters have AdamW's foreach step.
func newtonSchulz(o *optimizer, which []int) {
	const iterations = 5
	p := o.p
	var matrices, others []int
	for _, i := range which {
		if o.hidden(i) {
			matrices = append(matrices, i)
		} else {
			others = append(others, i)
		}
	}
	drop(o.temporary("foreach", others)...)
	c := p.Function()
	var update *Tensor
	for _, i := range matrices {
		p.op = o.kind.Name
		t := o.params[i]
		c.Set(&update, o.temporary("lerp", []int{i})[0])
		inner := p.Function()
		var ortho, gram, scaled *Tensor
		side := min(t.Sizes[0], t.Sizes[1])
		if t.DType != tensor.BFloat16 {
			inner.Set(&ortho, p.emptyOf(tensor.BFloat16, t.Sizes...))
		}
		for range iterations {
			inner.Set(&gram, p.emptyOf(tensor.BFloat16, side, side))
			inner.Set(&scaled, p.emptyOf(tensor.BFloat16, side, side))
			inner.Set(&ortho, p.emptyOf(tensor.BFloat16, t.Sizes...))
		}
		result := ortho.Retain()
		inner.ReturnAll()
		c.Set(&update, result)
		result.Release()
	}
	c.ReturnAll()
}

// projected is GaLore's step, parameter by parameter. What a name refers to lives until the next parameter's takes its place
// (https://github.com/jiaweizzhao/GaLore/blob/1317b5f7e589ba778d8d122f6102fda6fa7ba49e/galore_torch/adamw.py#L68; measured: docs/measurements/2026-11-16-h200-quantized.md).
func projected(o *optimizer, which []int) {
	p := o.p
	c := p.Function()
	var low, denominator, update *Tensor
	for _, i := range which {
		t, first := o.params[i], o.state[i] == nil
		o.states([]int{i})
		sizes := t.Sizes
		if o.hidden(i) {
			if first {
				o.decompose(i)
			}
			sizes = lowRank(t, false)
			p.op = o.kind.Name
			c.Set(&low, p.emptyOf(t.DType, sizes...))
		}
		p.op = o.kind.Name
		c.Set(&denominator, p.emptyOf(t.DType, sizes...))
		c.Set(&update, p.emptyOf(t.DType, sizes...))
		if o.hidden(i) {
			product := p.emptyOf(t.DType, t.Sizes...)
			c.Set(&update, p.emptyOf(t.DType, t.Sizes...))
			drop(product)
		}
	}
	c.ReturnAll()
}

// decompose is torch.linalg.svd(gradient, full_matrices=False) in fp32: both factors, of which the state keeps one where the gradient is fp32 as well, a copy, and the workspace.
func (o *optimizer) decompose(i int) {
	p, t := o.p, o.params[i]
	long, short := max(t.Dim(0), t.Dim(1)), min(t.Dim(0), t.Dim(1))
	p.op = "aten::linalg_svd"
	var held []*Tensor
	if t.DType != tensor.Float32 {
		held = append(held, p.emptyOf(tensor.Float32, long, short), p.emptyOf(tensor.Float32, short, short))
	}
	held = append(held, p.emptyOf(tensor.Float32, long, short), p.emptyOf(tensor.Float32, long, short))
	drop(append(held, p.emptyOf(tensor.Uint8, svdWorkspace(t.Dim(0), t.Dim(1))))...)
}

// svdWorkspace is what cuSOLVER takes for a decomposition, in bytes: asked of PyTorch 2.11 on an H200 for 18 shapes. Exact for sides that are multiples of 256 and differ, within 1 % for
// squares from 512 on.
func svdWorkspace(rows, columns int) int {
	long, short := max(rows, columns), min(rows, columns)
	switch {
	case rows == columns:
		return 8*rows*rows + 300*rows
	case rows > columns:
		return 4*long*short + 4*short*short + 1024*long + 2056*short + 263168
	}
	return 8*long*short + 4*short*short + 1024*long + 2056*short + 263168
}
