package eager

import (
	"encoding/csv"
	"encoding/json"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/units"
)

// kernelRow is a row of Liger's benchmarks: the peak of one kernel.
type kernelRow struct {
	kernel, provider, mode, gpu string
	x                           int
	mib                         float64
	with                        map[string]any
}

func (r kernelRow) number(name string) int {
	n, _ := r.with[name].(float64)
	return int(n)
}

// kernelRows reads the rows; none where the file is not there.
func kernelRows(t *testing.T) []kernelRow {
	t.Helper()
	name := os.Getenv("PLIMSOLL_KERNELS")
	if name == "" {
		t.Skip("PLIMSOLL_KERNELS names no file of kernel rows (make kernels)")
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]int{}
	for i, name := range all[0] {
		at[name] = i
	}
	var rows []kernelRow
	for _, line := range all[1:] {
		r := kernelRow{kernel: line[at["kernel"]], provider: line[at["provider"]], mode: line[at["mode"]], gpu: line[at["gpu"]]}
		r.x, _ = strconv.Atoi(line[at["x"]])
		r.mib, _ = strconv.ParseFloat(line[at["MB"]], 64)
		_ = json.Unmarshal([]byte(line[at["config"]]), &r.with) // rows without one are left out below
		rows = append(rows, r)
	}
	return rows
}

// kernelModels are the kernels that are written here, as the benchmarks call them: what lives before, and the step. Gradients stay from step to step.
var kernelModels = map[string]func(p *Process, r kernelRow) (step func()){
	"cross_entropy huggingface": func(p *Process, r kernelRow) func() {
		rows := r.number("B") * r.number("T")
		x, y := leaf(p, tensor.Float32, rows, r.x), p.Input("y", tensor.Int64, rows).Retain()
		return func() { p.lossBackward(CrossEntropy(x, y)) }
	},
	"rms_norm huggingface": func(p *Process, r kernelRow) func() {
		x, w := leaf(p, tensor.BFloat16, r.number("M"), r.x), leaf(p, tensor.BFloat16, r.x)
		g := p.Input("dy", tensor.BFloat16, r.number("M"), r.x).Retain()
		return func() {
			c := p.Function()
			wide := c.Let(x.Float())
			scaled := c.Let(wide.Mul(c.Let(wide.Pow()).Mean(true, -1).AddScalar().Rsqrt()))
			y := c.Let(w.Mul(scaled.To(tensor.BFloat16)))
			p.backwardFrom(y, g)
			c.ReturnAll()
		}
	},
	"layer_norm huggingface": func(p *Process, r kernelRow) func() {
		x, w, b := leaf(p, tensor.Float32, r.number("M"), r.x), leaf(p, tensor.Float32, r.x), leaf(p, tensor.Float32, r.x)
		g := p.Input("dy", tensor.Float32, r.number("M"), r.x).Retain()
		return func() {
			c := p.Function()
			y := c.Let(LayerNorm(x, w, b, r.x))
			p.backwardFrom(y, g)
			c.ReturnAll()
		}
	},
	"swiglu huggingface": func(p *Process, r kernelRow) func() { return gated(p, r, r.number("B"), (*Tensor).SiLU) },
	"geglu huggingface":  func(p *Process, r kernelRow) func() { return gated(p, r, r.number("bsz"), (*Tensor).GELU) },
	"fused_linear_cross_entropy huggingface": func(p *Process, r kernelRow) func() {
		x, w := leaf(p, tensor.BFloat16, r.x, r.number("H")), leaf(p, tensor.BFloat16, r.number("V"), r.number("H"))
		y := p.Input("y", tensor.Int64, r.x).Retain()
		p.Input("the weight of the other model, which the benchmark makes as well", tensor.BFloat16, r.number("V"), r.number("H")).Retain()
		return func() { p.lossBackward(CrossEntropy(Linear(x, w, nil), y)) }
	},
	"fused_linear_cross_entropy liger": func(p *Process, r kernelRow) func() {
		x, w := leaf(p, tensor.BFloat16, r.x, r.number("H")), leaf(p, tensor.BFloat16, r.number("V"), r.number("H"))
		y := p.Input("y", tensor.Int64, r.x).Retain()
		p.Input("the weight of the other model, which the benchmark makes as well", tensor.BFloat16, r.number("V"), r.number("H")).Retain()
		return func() { p.lossBackward(oldFusedLoss(x, w, y)) }
	},
}

// oldFusedLoss is FusedLinearCrossEntropy as Liger 0.4.2 had it: logits raised to fp32 and lowered again, both products new tensors, the weight's gradient added up in place.
func oldFusedLoss(x, w, target *Tensor) *Tensor {
	l := newFusedLoss(x, w)
	turned := w.alias(w.Layout.Transpose(0, 1)).Retain()
	c := l.p.Function() // names of a piece last until those of the next replace them
	var logits, scaled *Tensor
	for at := 0; at < l.rows; at += l.atOnce {
		part := x.alias(tensor.Of(min(l.atOnce, l.rows-at), l.hidden)).Retain()
		c.Set(&logits, l.p.product("aten::mm", part, turned))
		c.Set(&logits, logits.Detach().To(tensor.Float32))
		c.Set(&logits, logits.To(x.DType))
		c.Set(&scaled, l.p.empty(logits.Like(), logits.DType))
		drop(l.p.product("aten::mm", logits, w))
		part.Release()
	}
	c.ReturnAll()
	turned.Release()
	return l.result(target)
}

// gated is an MLP with a gate: down(act(gate(x)) * up(x)).
func gated(p *Process, r kernelRow, batch int, act func(*Tensor) *Tensor) func() {
	hidden, wide := r.number("hidden_size"), r.number("intermediate_size")
	x := leaf(p, tensor.BFloat16, batch, r.x, hidden)
	gate, up, down := leaf(p, tensor.BFloat16, wide, hidden), leaf(p, tensor.BFloat16, wide, hidden), leaf(p, tensor.BFloat16, hidden, wide)
	g := p.Input("dy", tensor.BFloat16, batch, r.x, hidden).Retain()
	return func() {
		c := p.Function()
		y := c.Let(Linear(act(Linear(x, gate, nil)).Mul(Linear(x, up, nil)), down, nil))
		p.backwardFrom(y, g)
		c.ReturnAll()
	}
}

// backwardFrom is y.backward(g).
func (p *Process) backwardFrom(y, g *Tensor) {
	p.grad = false
	p.runEngine(y.gradEdge(), y.output, g.Retain())
	p.grad = true
}

// lossBackward is loss.backward(), and the end of loss.
func (p *Process) lossBackward(loss *Tensor) {
	loss.Retain()
	p.Backward(loss)
	loss.Release()
}

// leaf is a tensor that collects a gradient.
func leaf(p *Process, d tensor.DType, sizes ...int) *Tensor {
	t := p.Input("x", d, sizes...).Retain()
	t.RequireGrad()
	return t
}

func TestKernelsAgreeWithPublishedRows(t *testing.T) {
	rows := kernelRows(t)
	errors, none := map[string][]float64{}, map[string]int{}
	for _, r := range rows {
		name := r.kernel + " " + r.provider
		model, ok := kernelModels[name]
		if !ok || r.mode != "full" {
			none[r.kernel+" "+r.provider+" "+r.mode]++
			continue
		}
		p := NewProcess(Device{SMs: 108, ThreadsPerSM: 2048, Major: 8, BlasWorkspace: 8519680, BlasLtWorkspace: 1 << 20})
		p.retainGraph = strings.HasSuffix(r.kernel, "glu") // as their benchmarks say
		step := model(p, r)
		for range 3 {
			step()
		}
		if got := kernelPeak(t, p.Tape()); r.mib > 0 {
			errors[name] = append(errors[name], 100*(got/r.mib-1))
		}
	}
	all := 0
	for _, name := range slices.Sorted(maps.Keys(errors)) {
		e := errors[name]
		slices.SortFunc(e, func(a, b float64) int { return int(math.Copysign(1, math.Abs(a)-math.Abs(b))) })
		all += len(e)
		t.Logf("| %s | %d | %.2f | %+.2f |", name, len(e), math.Abs(e[len(e)/2]), e[len(e)-1])
	}
	left := 0
	for _, n := range none {
		left += n
	}
	t.Logf("%d rows are covered, %d of kernels or modes that are not written here", all, left)
}

// kernelPeak is the most that is allocated, in MiB.
func kernelPeak(t *testing.T, tp *tape.Tape) float64 {
	t.Helper()
	res, err := alloc.Run(tp, alloc.Policy{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return float64(res.Stats.Peak.Allocated) / float64(units.MiB)
}
