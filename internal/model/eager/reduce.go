package eager

import (
	"math"
	"math/bits"
	"slices"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/units"
)

// sumTo sums a gradient over the dimensions a smaller shape was broadcast along (at::sum_to).
func (p *Process) sumTo(g *Tensor, sizes []int) *Tensor {
	shift := g.Rank() - len(sizes)
	var dims []int
	for i, n := range g.Sizes {
		if i < shift || (sizes[i-shift] == 1 && n != 1) {
			dims = append(dims, i)
		}
	}
	out := p.reduceDims(g, dims, g.DType)
	if !out.Same(sizes) {
		out.Layout = tensor.Of(sizes...)
	}
	return out
}

// reduceDims is a sum-like reduction that keeps the reduced dimensions as ones.
func (p *Process) reduceDims(t *Tensor, dims []int, d tensor.DType) *Tensor {
	sizes := slices.Clone(t.Sizes)
	for _, i := range dims {
		sizes[i] = 1
	}
	out := p.emptyOf(d, sizes...)
	p.reductionScratch(t.Layout, dims, t.DType)
	p.observe("aten::sum", t.DType, float64(t.Numel()), t.Bytes(), out.Bytes())
	return out
}

// reductionScratch takes the buffer of a CUDA reduction for its duration.
func (p *Process) reductionScratch(l tensor.Layout, dims []int, d tensor.DType) {
	size, counters := p.Device.Reduction(l, dims, d.Width(), max(4, d.Width()))
	if size == 0 {
		return
	}
	was := p.category
	p.category = tape.Workspace
	buffer := p.alloc(size)
	p.category = was
	p.scratch(counters)
	buffer.release()
}

// Reduction is the global buffer a CUDA reduction asks for where several thread blocks share an output, and the counters beside it, one for each block of the grid:
// setReduceConfig, global_memory_size and semaphore_size of aten/src/ATen/native/cuda/Reduce.cuh (2.11). width are the bytes of an element, partial those of what a thread sums up in: four in fp32.
func (device Device) Reduction(l tensor.Layout, dims []int, width, partial units.Bytes) (buffer, counters units.Bytes) {
	return device.reduction(within32Bits(l, width), dims, partial)
}

// within32Bits is the largest part of a tensor that a kernel works on at once: where offsets in bytes do not fit in 32 bits, the dimension that reaches farthest is halved until they do, and the parts follow
// one after the other. A sum over 8,192 rows of 512 KiB takes a buffer for 4,096 of them (256 MiB instead of 512, measured on an H200). Sources: can_use_32bit_indexing and get_dim_to_split,
// https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/TensorIterator.cpp; gpu_reduce_kernel, aten/src/ATen/native/cuda/Reduce.cuh.
func within32Bits(l tensor.Layout, width units.Bytes) tensor.Layout {
	reach := func(i int) float64 { return float64(l.Sizes[i]-1) * float64(l.Strides[i]) * float64(width) }
	halved := false
	for {
		farthest, last := 0, 1.0
		for i := range l.Sizes {
			last += reach(i)
			if reach(i) > reach(farthest) {
				farthest = i
			}
		}
		if last <= math.MaxInt32 || l.Sizes[farthest] < 2 {
			return l
		}
		if !halved {
			l.Sizes, halved = slices.Clone(l.Sizes), true
		}
		l.Sizes[farthest] = ceilDiv(l.Sizes[farthest], 2)
	}
}

func (device Device) reduction(l tensor.Layout, dims []int, partial units.Bytes) (buffer, counters units.Bytes) {
	r := newReduction(l, dims)
	if r.outputs == 0 || r.inputs <= 1 {
		return 0, 0
	}
	outVec := 1
	dim0, dim1 := r.outputs, r.inputs
	if r.onFastest {
		dim0, dim1 = r.inputs, r.outputs
		if r.unit && dim0 > 128 && r.rank == 1 {
			dim0 /= 4
		}
	} else if r.unit {
		outVec = r.outputVector()
		dim0 /= outVec
	}
	width, height := blockShape(dim0, dim1, 512/outVec)
	stepIn, stepOut := 1, 1
	if r.onFastest {
		stepIn *= width
	} else {
		stepOut *= width
	}
	perThread := func() int { return ceilDiv(r.inputs, stepIn) }
	if perThread() < height*16 && perThread() < 256 {
		return 0, 0 // the rows of a block work on different outputs
	}
	stepIn *= height
	target := device.SMs * (device.ThreadsPerSM / (width * height))
	grid := ceilDiv(r.outputs/outVec, stepOut)
	if perThread() < 256 || grid > target {
		return 0, 0
	}
	blocks := max(min(ceilDiv(target, grid), ceilDiv(perThread(), 16)), ceilDiv(perThread(), 256))
	if blocks <= 1 {
		return 0, 0
	}
	size := partial * units.Bytes(r.outputs) * units.Bytes(blocks)
	if !r.onFastest {
		size *= units.Bytes(width * outVec)
	}
	return size, units.Bytes(4 * grid)
}

// reduction describes how a tensor's dimensions take part in a reduction, neighbours merged as TensorIterator does.
type reduction struct {
	outputs, inputs int
	rank            int
	onFastest       bool // the reduced dimension is the fastest one
	unit            bool // the fastest dimension has stride one
	kept            []int
	keptStrides     []int
	sumStrides      []int
}

func newReduction(l tensor.Layout, dims []int) reduction {
	r := reduction{outputs: 1, inputs: 1}
	var lastKind, lastEnd int
	for _, i := range l.Order() {
		n, stride := l.Sizes[i], l.Strides[i]
		if n == 1 {
			continue
		}
		kind := 1
		if slices.Contains(dims, i) {
			kind = 2
			r.inputs *= n
		} else {
			r.outputs *= n
		}
		merged := kind == lastKind && stride == lastEnd
		lastKind, lastEnd = kind, stride*n
		switch {
		case merged && kind == 1:
			r.kept[len(r.kept)-1] *= n
		case merged:
		case kind == 1:
			r.kept, r.keptStrides = append(r.kept, n), append(r.keptStrides, stride)
		default:
			r.sumStrides = append(r.sumStrides, stride)
		}
	}
	r.rank = len(r.kept) + len(r.sumStrides)
	if len(r.sumStrides) == 0 {
		return r
	}
	r.onFastest = len(r.kept) == 0 || r.sumStrides[0] < r.keptStrides[0]
	fastest := r.sumStrides[0]
	if !r.onFastest {
		fastest = r.keptStrides[0]
	}
	r.unit = fastest == 1
	return r
}

// outputVector is get_output_vec_size: 4, 2 or 1 outputs a thread.
func (r reduction) outputVector() int {
	vec := 4
	shrink := func(n int) {
		for n%vec != 0 {
			vec /= 2
		}
	}
	shrink(r.kept[0])
	for _, s := range r.keptStrides[1:] {
		shrink(s)
	}
	for _, s := range r.sumStrides {
		shrink(s)
	}
	return vec
}

// blockShape is ReduceConfig::set_block_dimension.
func blockShape(dim0, dim1, threads int) (width, height int) {
	w0, h0 := min(lastPow2(dim0), threads), min(lastPow2(dim1), threads)
	width = min(w0, 32)
	height = min(h0, threads/width)
	width = min(w0, threads/height)
	return width, height
}

func lastPow2(n int) int { return 1 << max(bits.Len(uint(max(n, 1)))-1, 0) }

func ceilDiv(a, b int) int { return (a + b - 1) / b }

func roundUp(a, b int) int { return ceilDiv(a, b) * b }
