package eager

import (
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/units"
)

// live sums the bytes that are allocated at the end of a tape.
func live(t *tape.Tape) units.Bytes {
	var sum units.Bytes
	for _, e := range t.Events {
		switch e.Kind {
		case tape.Alloc:
			sum += e.Size
		case tape.Free:
			sum -= e.Size
		}
	}
	return sum
}

// highest is the largest sum of live bytes.
func highest(t *tape.Tape) units.Bytes {
	var sum, top units.Bytes
	for _, e := range t.Events {
		switch e.Kind {
		case tape.Alloc:
			sum += e.Size
		case tape.Free:
			sum -= e.Size
		}
		top = max(top, sum)
	}
	return top
}

// bare is a process without library workspaces, so that sums are those of tensors.
func bare() *Process {
	p := NewProcess(Device{SMs: 1, ThreadsPerSM: 1024, Major: 9})
	return p
}

func TestAnExpressionDropsItsTemporaries(t *testing.T) {
	t.Parallel()
	p := bare()
	x := p.emptyOf(tensor.Float32, 1000).Retain()
	x.Neg().Neg().Neg().Drop()
	if got := live(p.Tape()); got != 4000 {
		t.Errorf("%d bytes are left, want the 4000 of x", got)
	}
	if got := highest(p.Tape()); got != 12000 {
		t.Errorf("at most %d bytes, want x and two of the expression", got)
	}
}

func TestAnAssignmentHoldsTheOldValueUntilTheNewOneExists(t *testing.T) {
	t.Parallel()
	p := bare()
	c := p.Function()
	x := c.Let(p.emptyOf(tensor.Float32, 1000))
	c.Set(&x, x.Neg())
	if got := live(p.Tape()); got != 4000 {
		t.Errorf("%d bytes after x = -x, want 4000", got)
	}
	c.ReturnAll()
	if got := live(p.Tape()); got != 0 {
		t.Errorf("%d bytes after the call, want none", got)
	}
}

func TestAModuleCallHoldsItsArguments(t *testing.T) {
	t.Parallel()
	p := bare()
	m := NewModel(p, tensor.Float32)
	inner := func(x *Tensor) *Tensor {
		c := m.Enter(x)
		c.Set(&x, x.Neg())
		c.Set(&x, x.Neg())
		return c.Return(x)
	}
	inner(p.emptyOf(tensor.Float32, 1000)).Drop()
	if got := highest(p.Tape()); got != 12000 {
		t.Errorf("at most %d bytes, want the argument beside two values", got)
	}
	if got := live(p.Tape()); got != 0 {
		t.Errorf("%d bytes are left, want none", got)
	}
}

func TestUsingAValueAfterItsLastReferenceIsAnError(t *testing.T) {
	t.Parallel()
	p := bare()
	err := p.Guard(func() {
		x := p.emptyOf(tensor.Float32, 10)
		x.Neg().Drop()
		x.Neg().Drop()
	})
	if err == nil || !strings.Contains(err.Error(), "after its last reference") {
		t.Errorf("error %v, want one about the last reference", err)
	}
}

func TestShapesThatDoNotFitAreAnError(t *testing.T) {
	t.Parallel()
	p := bare()
	for name, work := range map[string]func(){
		"add":   func() { p.emptyOf(tensor.Float32, 3).Add(p.emptyOf(tensor.Float32, 4)) },
		"view":  func() { p.emptyOf(tensor.Float32, 3).View(2, 2) },
		"mm":    func() { Matmul(p.emptyOf(tensor.Float32, 3, 4), p.emptyOf(tensor.Float32, 5, 6)) },
		"huge":  func() { p.emptyOf(tensor.Float32, 1<<30, 1<<30) },
		"axis":  func() { p.emptyOf(tensor.Float32, 3).Transpose(0, 1) },
		"minus": func() { p.emptyOf(tensor.Float32, -3) },
	} {
		if err := p.Guard(work); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// mlp is a small model: a list of layers, checkpointed or not.
type mlp struct {
	root       *Module
	layers     []*LinearModule
	rows, dim  int
	checkpoint bool
}

func newMLP(p *Process, depth, rows, dim int, checkpoint bool) *mlp {
	m := &mlp{root: NewModel(p, tensor.Float32), rows: rows, dim: dim, checkpoint: checkpoint}
	for i := range depth {
		m.layers = append(m.layers, m.root.Item(i).Linear("fc", dim, dim, true))
	}
	return m
}

func (m *mlp) Root() *Module { return m.root }

func (m *mlp) Batch() []*Tensor {
	return []*Tensor{m.root.p.Input("x", tensor.Float32, m.rows, m.dim), m.root.p.Input("y", tensor.Int64, m.rows)}
}

func (m *mlp) Forward(batch []*Tensor) (*Tensor, []*Tensor) {
	p := m.root.p
	c := m.root.Enter(batch...)
	x := c.Let(batch[0])
	for _, l := range m.layers {
		h := x
		run := func() []*Tensor { return []*Tensor{l.Forward(h).GELU()} }
		if m.checkpoint {
			c.Set(&x, p.Checkpoint(run, h)[0])
			continue
		}
		c.Set(&x, run()[0])
	}
	loss := c.Let(CrossEntropy(x, batch[1]))
	return c.Return(loss), nil
}

func trainMLP(t *testing.T, checkpoint bool, o Options) *tape.Tape {
	t.Helper()
	p := bare()
	if err := p.Train(newMLP(p, 6, 512, 256, checkpoint), o); err != nil {
		t.Fatal(err)
	}
	return p.Tape()
}

func TestStepsLeaveNothingButParametersGradientsAndState(t *testing.T) {
	t.Parallel()
	params := units.Bytes(6 * (256*256 + 256) * 4)
	for _, checkpoint := range []bool{false, true} {
		for _, autocast := range []tensor.DType{tensor.Bool, tensor.BFloat16} {
			got := live(trainMLP(t, checkpoint, Options{Optimizer: "adamw", Autocast: autocast}))
			if got != 4*params {
				t.Errorf("checkpointing %v, autocast %v: %d bytes are left, want parameters, gradients and two states: %d", checkpoint, autocast, got, 4*params)
			}
		}
	}
}

func TestCheckpointingNeverRaisesThePeakOfADeepModel(t *testing.T) {
	t.Parallel()
	o := Options{Optimizer: "sgd"}
	if with, without := highest(trainMLP(t, true, o)), highest(trainMLP(t, false, o)); with >= without {
		t.Errorf("%d bytes with checkpointing, %d without", with, without)
	}
}

func TestEveryOperatorReportsItsArithmetic(t *testing.T) {
	t.Parallel()
	p := bare()
	products := map[string]float64{}
	p.Observe = func(w Work) {
		if strings.HasPrefix(w.Op, "aten::addmm") || strings.HasPrefix(w.Op, "Addmm") {
			products[w.Phase] += w.FLOPs
		}
	}
	if err := p.Train(newMLP(p, 6, 512, 256, false), Options{Optimizer: "sgd", Steps: 1}); err != nil {
		t.Fatal(err)
	}
	forward := 2.0 * 6 * 512 * 256 * 256
	if products[PhaseForward] != forward {
		t.Errorf("forward does %g operations in matrix products, want %g", products[PhaseForward], forward)
	}
	// The first layer's input needs no gradient.
	if want := forward*2 - forward/6; products[PhaseBackward] != want {
		t.Errorf("backward does %g operations in matrix products, want %g", products[PhaseBackward], want)
	}
}
