package graphrun

import (
	_ "embed"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

//go:embed formulas.txt
var formulaText string

// formulas are what autograd's nodes save, by the operator's name without underscores: for each overload the names of arguments and results.
var formulas = parseFormulas(formulaText)

func parseFormulas(text string) map[string][][]string {
	out := map[string][][]string{}
	for line := range strings.Lines(text) {
		name, saved, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		for overload := range strings.SplitSeq(saved, "|") {
			out[name] = append(out[name], strings.Fields(overload))
		}
	}
	return out
}

// composite are operators that only call another one, whose node autograd sees.
var composite = map[string]string{
	"grid_sampler": "grid_sampler_2d", // https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/GridSampler.cpp#L992
	"_weight_norm": "_weight_norm_interface",
	"fft_fftn":     "_fft_c2c", "fft_fft": "_fft_c2c", "fft_ifft": "_fft_c2c", "fft_fft2": "_fft_c2c", "fft_ifftn": "_fft_c2c", "fft_rfft": "_fft_r2c", "fft_rfftn": "_fft_r2c", "fft_rfft2": "_fft_r2c",
	"fft_irfft": "_fft_c2r", "fft_irfftn": "_fft_c2r", "fft_irfft2": "_fft_c2r",
	"scatter_src": "scatter",
}

// byFormula runs an operator that has no function of its own by what its node saves. Its backward makes a gradient for every input that needs one. False where
// autograd has no such node.
func (o *graphOp) byFormula() ([]*eager.Tensor, bool) {
	base := o.name()
	if inner, ok := composite[base]; ok {
		base = inner
	}
	overloads, ok := formulas[strings.ReplaceAll(base, "_", "")]
	if !ok {
		return nil, false
	}
	f := eager.Formula{Op: o.node.Target, Inputs: o.tensors()}
	saved, results := o.saved(overloads)
	f.Saved = saved
	if o.inPlace() {
		var parts []int
		f.Target, parts = o.whole()
		out := []*eager.Tensor{o.p.Formula(f)[0]}
		o.written(f.Target, parts)
		return out, true
	}
	for i, v := range o.node.Outputs {
		if v < 0 {
			continue
		}
		f.Layouts = append(f.Layouts, tensor.Of(o.sizes(i)...))
		f.Types = append(f.Types, o.resultType(v))
		f.Keeps = append(f.Keeps, results)
	}
	return o.p.Formula(f), true
}

// saved finds the tensors that the overload of this call saves, and whether it saves results: the overload of which most names are tensors here.
func (o *graphOp) saved(overloads [][]string) (args []*eager.Tensor, results bool) {
	best := -1
	for _, names := range overloads {
		var found []*eager.Tensor
		missing := 0
		keeps := false
		for _, name := range names {
			a, ok := o.node.Arg(name)
			switch {
			case !ok:
				keeps = true // result, or the name of one of several
			case !slices.ContainsFunc(a.Values, func(v int) bool { return v >= 0 && o.vals[v] != nil }):
				missing++
			}
			for _, v := range a.Values {
				if v >= 0 && o.vals[v] != nil {
					found = append(found, o.vals[v])
				}
			}
		}
		if fit := 100 - missing; fit > best {
			best, args, results = fit, found, keeps
		}
	}
	return args, results
}

// inPlace tells whether the operator writes into its first argument.
func (o *graphOp) inPlace() bool {
	base := o.name()
	return strings.HasSuffix(base, "_") && !strings.HasSuffix(base, "__")
}

// whole is the tensor whose history an operator changes that writes into its first argument, the one that this is a part of, and the values that are views of it on the way there.
func (o *graphOp) whole() (*eager.Tensor, []int) {
	at := o.node.Tensor("self")
	var parts []int
	for o.plan.maker != nil && at >= 0 && o.plan.maker[at] >= 0 {
		n := &o.plan.nodes[o.plan.maker[at]]
		if !viewing(n.Target) || n.Tensor("self") < 0 || o.vals[n.Tensor("self")] == nil {
			break
		}
		parts = append(parts, at)
		at = n.Tensor("self")
	}
	if at >= 0 && o.vals[at] != nil && o.fixed[at] == nil {
		return o.vals[at], parts
	}
	return o.self(), nil
}

// written gives the views of a tensor that was written into the history that it has now.
func (o *graphOp) written(whole *eager.Tensor, parts []int) {
	for _, v := range parts {
		if o.vals[v] != nil && o.vals[v] != whole {
			o.vals[v].ViewOf(whole)
		}
	}
}

// strided is a view with the sizes, strides and type that the trace states; its gradient is a view as well (view_as_complex, view_as_real), or, where the view
// leaves elements out or has some twice, of the full size (unfold, diagonal).
func (o *graphOp) strided(full bool) *eager.Tensor {
	v := o.node.Outputs[0]
	l := tensor.Layout{Sizes: o.sizes(0), Strides: o.Dims(o.Values[v].Strides)}
	return o.self().ViewAs(o.name(), l, graphType(o.Values[v].DType), full)
}
