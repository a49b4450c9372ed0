package eager

import (
	"slices"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/torch"
)

// Model is what a family or a graph gives to Train.
type Model interface {
	// Root is the module tree.
	Root() *Module
	// Batch allocates the inputs of one micro-batch, in order; each becomes a reference of the loop.
	Batch() []*Tensor
	// Forward computes the loss; outputs are what the model's output object keeps alive beside it.
	Forward(batch []*Tensor) (loss *Tensor, outputs []*Tensor)
}

// Options say how a model is trained.
type Options struct {
	Autocast   tensor.DType // Float16 or BFloat16; Bool (zero): off
	Scaler     bool         // GradScaler, with fp16 autocast
	Optimizer  torch.Optimizer
	Accumulate int  // micro-batches a step; 0 is 1
	Plain      bool // a script's loop: the previous iteration's values stay alive while the next runs
	Rebound    bool // with Plain: all but its batch, whose names have the next one's values when forward begins
	Kept       bool // with Plain: the step is a function that returns its values, which replace those of the last step when it has returned
	LossOnly   bool // backward begins without the model's outputs: only the loss was returned
	ZeroLate   bool // gradients are set to None between forward and backward
	InBackward bool // every parameter has an optimizer of its own, which steps and frees the gradient as soon as it is complete (register_post_accumulate_grad_hook)
	// FloatOutputs: under autocast, outputs in 16 bits are replaced by copies in fp32 when forward has returned (Accelerate's ConvertOutputsToFp32,
	// https://github.com/huggingface/accelerate/blob/v1.15.0/src/accelerate/utils/operations.py, around every prepared model's forward).
	FloatOutputs bool
	Uncached     bool // autocast runs with cache_enabled=False: every use of a parameter casts it
	WholeStep    bool // one function does forward, backward and the optimizer's step: its locals die after it
	Freeze       []string
	Steps        int  // 0 is 3
	Repeat       bool // steps after the second may be copies of it: nobody wants to be told of their operators

	SavedOnHost bool // forward runs under torch.autograd.graph.save_on_cpu(pin_memory=True)

	ChannelsLast bool  // the model is converted after it was loaded
	LoRA         *LoRA // adapters instead of the model's own parameters

	// InputGrads: what the input embeddings give requires a gradient, though they are frozen: gradient_checkpointing_enable() asks for it
	// (https://github.com/huggingface/transformers/blob/v5.0.0/src/transformers/modeling_utils.py, enable_input_require_grads). The tensor is a leaf then, and has a gradient of its own.
	InputGrads bool
}

// Names of the phases; a Mark begins each.
const (
	PhaseLoad      = torch.PhaseLoad
	PhaseZeroGrad  = torch.PhaseZeroGrad
	PhaseForward   = torch.PhaseForward
	PhaseBackward  = torch.PhaseBackward
	PhaseOptimizer = torch.PhaseOptimizer
)

// Train loads a model and runs steps in the order zero_grad, forward, backward, optimizer. The tape then holds all of it.
func (p *Process) Train(m Model, o Options) error {
	return p.Guard(func() {
		p.load(m, o)
		p.seams.Made = len(p.tape.Events)
		opt, err := newOptimizer(p, o.Optimizer, trainable(m.Root()))
		if err != nil {
			panic(refusal{err})
		}
		loop := &loop{p: p, m: m, o: o, opt: opt}
		if o.InBackward {
			p.accumulated = opt.stepOf
		}
		steps := o.Steps
		if steps == 0 {
			steps = 3
		}
		begun := 0
		for step := range steps {
			last := begun
			begun = len(p.tape.Events)
			if step == 1 { // the others are about as long as the first
				p.tape.Events = slices.Grow(p.tape.Events, (steps-1)*(begun-last)*5/4)
			}
			if step < 2 || !o.Repeat || !repeat(&p.tape, last) {
				loop.step(step + 1)
			}
		}
	})
}

// Evaluate loads a model and runs batches of it in evaluation mode under torch.no_grad(), as a loop does whose names keep one batch's values until the
// next one's replace them. The tape then holds a step for every batch.
func (p *Process) Evaluate(m Model, o Options, batches int) error {
	return p.Guard(func() {
		p.load(m, o)
		l := &loop{p: p, m: m, o: o}
		p.still = true
		p.NoGrad(func() {
			for i := range batches {
				l.phase(i+1, torch.PhaseEval)
				batch := retained(m.Batch())
				release(&l.batch, batch)
				loss, outputs := l.forward(batch)
				rebind(&l.outputs, append([]*Tensor{loss}, outputs...))
			}
		})
		p.still = false
	})
}

// load puts a model on the card, ready to be trained.
func (p *Process) load(m Model, o Options) {
	p.Mark(tape.Moment{Phase: PhaseLoad})
	p.inputGrads, p.uncached = o.InputGrads, o.Uncached
	if o.LoRA != nil {
		if err := m.Root().AttachLoRA(*o.LoRA); err != nil {
			panic(refusal{err})
		}
	}
	m.Root().Load()
	if o.LoRA != nil && o.LoRA.DoRA { // magnitudes are computed with a product (DoraLinearLayer.update_layer)
		p.useBlas()
	}
	if o.ChannelsLast {
		m.Root().ToChannelsLast()
	}
	m.Root().Freeze(o.Freeze)
}

func trainable(m *Module) []*Tensor {
	var out []*Tensor
	for _, t := range m.Parameters() {
		if t.requires {
			out = append(out, t)
		}
	}
	return out
}

// loop is the training script.
type loop struct {
	p       *Process
	m       Model
	o       Options
	opt     *optimizer
	batch   []*Tensor // names of the last iteration
	outputs []*Tensor
	scaling bool // the scaler's own scalars exist
}

func (l *loop) step(number int) {
	p := l.p
	l.phase(number, PhaseZeroGrad)
	if l.o.WholeStep { // the last step's function has returned
		l.forgetStep()
	}
	if !l.o.ZeroLate {
		l.opt.zeroGrad()
	}
	if l.o.Kept { // the last step's values have a name outside of the function
		last := loop{batch: l.batch, outputs: l.outputs}
		l.batch, l.outputs = nil, nil
		defer last.forgetStep()
	}
	micro := max(l.o.Accumulate, 1)
	for i := range micro {
		l.phase(number, PhaseForward)
		p.regions = 0
		batch := retained(l.m.Batch())
		if l.o.Rebound {
			release(&l.batch, batch)
		}
		loss, outputs := l.forward(batch)
		rebind(&l.outputs, append([]*Tensor{loss}, outputs...))
		if l.o.LossOnly {
			rebind(&l.outputs, []*Tensor{loss})
		}
		if !l.o.Rebound {
			release(&l.batch, batch)
		}
		if l.o.ZeroLate && i == 0 {
			l.opt.zeroGrad()
		}
		l.phase(number, PhaseBackward)
		scaled := l.scale(loss)
		p.Backward(scaled)
		drop(scaled)
		if i == micro-1 {
			l.phase(number, PhaseOptimizer)
		}
		if !l.o.Plain && !l.o.WholeStep { // forward and backward are a function: its locals die when it returns
			l.forgetStep()
		}
	}
	l.update()
}

func (l *loop) forgetStep() {
	rebind(&l.batch, nil)
	rebind(&l.outputs, nil)
}

// rebind gives names to new values; the old ones go afterwards.
func rebind(names *[]*Tensor, values []*Tensor) { release(names, retained(values)) }

func retained(values []*Tensor) []*Tensor {
	for _, t := range values {
		t.Retain()
	}
	return values
}

// release lets the old values of some names go; the new ones are references already.
func release(names *[]*Tensor, values []*Tensor) {
	for _, t := range *names {
		t.Release()
	}
	*names = values
}

func (l *loop) phase(number int, name string) {
	l.p.phase = name
	l.p.Mark(tape.Moment{Step: number, Phase: name})
}

func (l *loop) forward(batch []*Tensor) (loss *Tensor, outputs []*Tensor) {
	run := func() { loss, outputs = l.m.Forward(batch) }
	if l.o.SavedOnHost {
		inner := run
		run = func() { l.p.savedOnHost(inner) }
	}
	if !l.o.Autocast.Half() {
		run()
		return loss, outputs
	}
	l.p.Autocast(l.o.Autocast, run)
	if l.o.FloatOutputs {
		outputs = floats(outputs)
	}
	return loss, outputs
}

// floats are copies in fp32 of tensors in 16 bits. The others live until all are made: a new mapping is built from the old one.
func floats(old []*Tensor) []*Tensor {
	out, halves := slices.Clone(old), []*Tensor(nil)
	for i, t := range old {
		if t.DType.Half() {
			halves = append(halves, t.Retain())
			out[i] = t.Float()
		}
	}
	release(&halves, nil)
	return out
}

// scale is what happens to the loss before backward: divided by the number of micro-batches, multiplied by the scaler.
func (l *loop) scale(loss *Tensor) *Tensor {
	out := loss.DivScalar()
	if !l.o.Scaler {
		return out
	}
	if !l.scaling { // _lazy_init_scale_growth_tracker
		l.scaling = true
		l.scalar("scale", tensor.Float32).Retain()
		l.scalar("growth_tracker", tensor.Int32).Retain()
	}
	return out.MulScalar()
}

// update is optimizer.step(), or scaler.step(optimizer) and scaler.update(): gradients are unscaled in place, with a few scalars
// (torch/amp/grad_scaler.py). The steady state is computed: no step is skipped.
func (l *loop) update() {
	if !l.o.Scaler {
		l.optimize()
		return
	}
	double := l.scalar("inv_scale", tensor.Float64)
	reciprocal := l.scalar("inv_scale", tensor.Float64)
	drop(double)
	inverse := l.scalar("inv_scale", tensor.Float32)
	drop(reciprocal)
	found := l.scalar("found_inf", tensor.Float32)
	copies := []*Tensor{l.scalar("found_inf", tensor.Float32), l.scalar("inv_scale", tensor.Float32)}
	drop(found, inverse, copies[1])
	l.optimize()
	drop(copies[0])
}

func (l *loop) optimize() {
	l.p.seams.Steps = append(l.p.seams.Steps, len(l.p.tape.Events))
	l.opt.step()
}

func (l *loop) scalar(name string, d tensor.DType) *Tensor {
	was := l.p.category
	l.p.category, l.p.op = tape.Optimizer, name
	t := l.p.emptyOf(d)
	l.p.category = was
	return t
}
