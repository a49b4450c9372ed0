package eager

import "github.com/plimsoll/plimsoll/internal/model/tensor"

// autocastState is an active torch.autocast with its cache of weight casts.
type autocastState struct {
	dtype  tensor.DType
	cache  map[*Tensor]*Tensor
	paused bool
}

// Autocast runs work under torch.autocast. The cache of cast weights lives until the outermost one ends.
func (p *Process) Autocast(d tensor.DType, work func()) {
	if p.casting != nil {
		work()
		return
	}
	p.casting = &autocastState{dtype: d}
	work()
	p.casting.clear()
	p.casting = nil
}

// WithoutAutocast runs work under torch.autocast(enabled=False); the cache stays.
func (p *Process) WithoutAutocast(work func()) {
	if p.casting == nil || p.casting.paused {
		work()
		return
	}
	p.casting.paused = true
	work()
	p.casting.paused = false
}

func (a *autocastState) clear() {
	for _, t := range a.order() {
		t.Release()
	}
	a.cache = nil
}

// order gives the cached casts in the order of their allocation, so that runs are repeatable.
func (a *autocastState) order() []*Tensor {
	out := make([]*Tensor, 0, len(a.cache))
	for _, t := range a.cache {
		out = append(out, t)
	}
	sortTensors(out)
	return out
}

// Autocasting tells the low precision type of the active autocast.
func (p *Process) Autocasting() (tensor.DType, bool) {
	if p.casting == nil || p.casting.paused {
		return 0, false
	}
	return p.casting.dtype, true
}

// lower casts an argument of an operator on autocast's low precision list (linear, matmul, convolution, attention).
func (p *Process) lower(t *Tensor) *Tensor {
	d, on := p.Autocasting()
	if !on || t == nil || !t.DType.Floating() || t.DType == d || t.DType == tensor.Float64 {
		return t
	}
	return p.cachedCast(t, d)
}

// raise casts an argument of an operator on autocast's fp32 list (norms, losses, pow, ...).
func (p *Process) raise(t *Tensor) *Tensor {
	if _, on := p.Autocasting(); !on || t == nil || !t.DType.Half() {
		return t
	}
	return p.cachedCast(t, tensor.Float32)
}

// cachedCast keeps casts of trainable fp32 leaves (aten/src/ATen/autocast_mode.cpp, cached_cast).
func (p *Process) cachedCast(t *Tensor, d tensor.DType) *Tensor {
	cacheable := d == p.casting.dtype && t.DType == tensor.Float32 && t.requires && t.leaf && !t.view && !p.uncached
	if !cacheable {
		return t.To(d)
	}
	if c, ok := p.casting.cache[t]; ok {
		return c
	}
	was := p.grad
	p.grad = true // under no_grad too, since 2.11: a later pass with gradients finds the cast here (https://github.com/pytorch/pytorch/pull/165068)
	c := t.To(d).Retain()
	p.grad = was
	if p.casting.cache == nil {
		p.casting.cache = map[*Tensor]*Tensor{}
	}
	p.casting.cache[t] = c
	return c
}
