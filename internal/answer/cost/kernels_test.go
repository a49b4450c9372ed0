package cost

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/testkit/recordtest"
	"github.com/plimsoll/plimsoll/internal/units"
)

// measuredKernel is a kernel of a profiled step (testdata/kernels.jsonl.gz, written by scripts/gpu/profile_steps.py).
type measuredKernel struct {
	op, name string
	shapes   [][]int
	dtype    tensor.DType
	seconds  float64 // of one
}

// profiledStep is a line of that file.
type profiledStep struct {
	Parameters string               `json:"param_dtype"`
	Autocast   string               `json:"autocast"`
	Kernels    [][5]json.RawMessage `json:"kernels"`
}

func measuredKernels(t *testing.T) []measuredKernel {
	t.Helper()
	var out []measuredKernel
	for _, step := range recordtest.Lines[profiledStep](t, "testdata/kernels.jsonl.gz") {
		if step.Autocast != "" {
			continue // types of operands are not recorded
		}
		for _, k := range step.Kernels {
			out = append(out, kernelOf(t, k, step.Parameters))
		}
	}
	return out
}

func kernelOf(t *testing.T, fields [5]json.RawMessage, parameters string) measuredKernel {
	t.Helper()
	k := measuredKernel{dtype: tensor.Float32}
	if parameters == "bf16" {
		k.dtype = tensor.BFloat16
	}
	var count, micros float64
	for i, into := range []any{&k.op, nil, &k.name, &count, &micros} {
		if into == nil {
			continue
		}
		if err := json.Unmarshal(fields[i], into); err != nil {
			t.Fatal(err)
		}
	}
	var shapes []json.RawMessage
	if err := json.Unmarshal(fields[1], &shapes); err != nil {
		t.Fatal(err)
	}
	for _, s := range shapes {
		var sizes []int
		if json.Unmarshal(s, &sizes) == nil && len(sizes) > 0 {
			k.shapes = append(k.shapes, sizes)
		}
	}
	k.seconds = micros * 1e-6 / count
	return k
}

func numel(sizes []int) int {
	n := 1
	for _, s := range sizes {
		n *= s
	}
	return n
}

// errorOf is the median of how far the model is off from kernels of one class, as a share.
func errorOf(t *testing.T, class string, kernels []measuredKernel, work func(measuredKernel) (eager.Work, bool)) float64 {
	t.Helper()
	r := h200(t)
	var off []float64
	for _, k := range kernels {
		if w, ok := work(k); ok {
			off = append(off, math.Abs((r.kernel(w)-launch)/k.seconds-1))
		}
	}
	if len(off) < 10 {
		t.Fatalf("%s: only %d kernels", class, len(off))
	}
	slices.Sort(off)
	t.Logf("%s: %d kernels, median %.1f %% off", class, len(off), 100*off[len(off)/2])
	return off[len(off)/2]
}

func aligned(n int) int { return (n | 8) & -(n | 8) }

// matrixProduct is a product of measured shapes; of those of its operands as they are stored.
func matrixProduct(k measuredKernel, odd bool) (eager.Work, bool) {
	if k.op != "aten::mm" && k.op != "aten::addmm" || len(k.shapes) < 2 || strings.Contains(k.name, "splitK") || strings.Contains(k.name, "educe") {
		return eager.Work{}, false
	}
	a, b := k.shapes[len(k.shapes)-2], k.shapes[len(k.shapes)-1]
	if len(a) != 2 || len(b) != 2 {
		return eager.Work{}, false
	}
	w := product(k.dtype, 1, a[0], b[1], a[1])
	w.Align = min(aligned(a[0]), aligned(a[1]), aligned(b[1]))
	if b[1]%2 == 0 || a[1]%8 != 0 {
		w.Phase = eager.PhaseBackward
	}
	return w, w.FLOPs > 4e9 && (w.Align < 8) == odd
}

func TestKernelsTakeWhatWasMeasured(t *testing.T) {
	t.Parallel()
	kernels := measuredKernels(t)
	of := func(d tensor.DType, odd bool) func(measuredKernel) (eager.Work, bool) {
		return func(k measuredKernel) (eager.Work, bool) {
			w, ok := matrixProduct(k, odd)
			return w, ok && k.dtype == d
		}
	}
	norm := func(op string, phase string) func(measuredKernel) (eager.Work, bool) {
		return func(k measuredKernel) (eager.Work, bool) {
			if k.op != op || len(k.shapes[0]) != 4 || strings.Contains(k.name, "transform") {
				return eager.Work{}, false
			}
			s := k.shapes[0]
			return eager.Work{Kind: eager.Normalised, DType: k.dtype, Phase: phase, Shape: [4]int{s[1], numel(s), numel(s[2:])}}, k.seconds > 30e-6
		}
	}
	for _, c := range []struct {
		class string
		work  func(measuredKernel) (eager.Work, bool)
		most  float64
	}{
		{"products in bf16", of(tensor.BFloat16, false), 0.12}, // the power limit holds steps back by as much
		{"misaligned products in bf16", of(tensor.BFloat16, true), 0.05},
		{"products in fp32", of(tensor.Float32, false), 0.05},
		{"elementwise products and sums", elementwise, 0.06},
		{"batch norm of cuDNN, forward", norm("aten::cudnn_batch_norm", eager.PhaseForward), 0.15},
		{"batch norm of cuDNN, backward", norm("aten::cudnn_batch_norm_backward", eager.PhaseBackward), 0.15},
		{"batch norm in 16 bits, backward", norm("aten::native_batch_norm_backward", eager.PhaseBackward), 0.2},
	} {
		if off := errorOf(t, c.class, kernels, c.work); off > c.most {
			t.Errorf("%s: %.1f %% off in the median", c.class, 100*off)
		}
	}
}

// elementwise is a kernel over two tensors of one shape in one order, large enough not to live in the cache.
func elementwise(k measuredKernel) (eager.Work, bool) {
	if k.op != "aten::mul" && k.op != "aten::add" || len(k.shapes) != 2 || !slices.Equal(k.shapes[0], k.shapes[1]) || !strings.Contains(k.name, "vectorized_elementwise") {
		return eager.Work{}, false
	}
	n := units.Bytes(numel(k.shapes[0])) * k.dtype.Width()
	return eager.Work{Op: k.op, DType: k.dtype, Result: k.dtype, Read: 2 * n, Written: n, Kernels: 1}, n > 64*units.MiB
}
