package eager

import (
	"math/bits"

	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Activations on the host: torch.autograd.graph.save_on_cpu(pin_memory=True) around the forward pass (torch/autograd/graph.py, 2.11). Every tensor
// that autograd saves is copied into pinned memory of its own, parameters and results too (torch/csrc/autograd/saved_variable.cpp packs
// whatever is saved while a hook is set), and a tensor that three operators save is copied three times. Backward copies each back for the time of
// its function. The hooks of a checkpointed call stand inside: of such a call only the arguments travel.

// packed is a saved tensor that is on the host.
type packed struct {
	layout tensor.Layout
	dtype  tensor.DType
	host   bool // it was there before
}

// hostHook is the pair of functions of save_on_cpu.
type hostHook struct{ p *Process }

// pack copies a tensor down and waits for it: copy_ into pinned memory blocks unless it is told not to (aten/src/ATen/native/cuda/Copy.cu). What is not
// contiguous is made so on the card first (copy_requires_temporaries).
func (h hostHook) pack(t *Tensor) slot {
	p, op := h.p, h.p.op
	p.op = "save_on_cpu"
	away := &packed{tensor.Of(t.Sizes...), t.DType, t.host}
	if !t.host {
		if !t.IsContiguous() {
			p.scratch(t.Bytes())
			p.observe("aten::contiguous", t.DType, 0, stored(t), t.Bytes())
		}
		p.work(Work{Op: "aten::copy_", Kind: ToHost, DType: t.DType, Result: t.DType, Read: t.Bytes(), Written: t.Bytes(), Kernels: 1})
		p.pin(t.Bytes())
	}
	p.op = op
	return slot{away: away}
}

// bring copies a packed tensor back. Nothing waits: the copy is an entry of the stream like a kernel.
func (p *Process) bring(a *packed) *storage {
	if a.host {
		return &storage{p: p, refs: 1, none: true}
	}
	op := p.op
	p.op = "save_on_cpu"
	size := units.Bytes(a.layout.Numel()) * a.dtype.Width()
	s := p.alloc(size)
	// Spare: it may not find the place that it left. Measured on an H200: 2.2 GiB more reserved than the tape needs, where logits take 2.0 and 3.9 GiB.
	p.unsure(Work{Op: "aten::copy_", Kind: FromHost, DType: a.dtype, Result: a.dtype, Read: size, Written: size, Kernels: 1, Spare: size})
	p.op = op
	return s
}

// pin counts pinned memory: blocks are powers of two (aten/src/ATen/core/CachingHostAllocator.h, 2.11).
func (p *Process) pin(size units.Bytes) {
	if size > 0 {
		p.pinned += 1 << bits.Len64(uint64(size-1))
	}
}

// Pinned is the host memory that the last forward pass filled with saved tensors.
func (p *Process) Pinned() units.Bytes { return p.pinned }

// savedOnHost runs a forward pass under save_on_cpu.
func (p *Process) savedOnHost(run func()) {
	p.pinned = 0
	p.hooks = append(p.hooks, hostHook{p})
	run()
	p.hooks = p.hooks[:len(p.hooks)-1]
}
