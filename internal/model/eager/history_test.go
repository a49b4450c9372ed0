package eager

import (
	"testing"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/units"
)

// trained is a leaf that autograd follows.
func trained(p *Process, sizes ...int) *Tensor {
	t := p.emptyOf(tensor.Float32, sizes...).Retain()
	t.requires = true
	return t
}

// Longformer masks its scores in a view of them that was made before: scores.transpose(1, 2)[...] = where(mask, …). The view is what softmax reads, so the mask lives until backward. Measured on an H200: eight masks of 6 MB in four layers.
func TestAViewHasTheHistoryOfWhatIsWrittenIntoItsTensor(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{false, true} {
		p := bare()
		w := trained(p, 64, 32)
		before := live(p.Tape())
		c := p.Function()
		scores := c.Let(p.emptyOf(tensor.Float32, 64, 32))
		view := c.Let(scores.Transpose(0, 1))
		scores.AssignInPlace(Where(p.emptyOf(tensor.Bool, 64, 32), w, w))
		if again {
			view.ViewOf(scores)
		}
		out := c.Return(view.Exp())
		const result, mask = 64 * 32 * 4, 64 * 32
		want := units.Bytes(result)
		if again {
			want += mask
		}
		if got := live(p.Tape()) - before; got != want {
			t.Errorf("view made anew %v: %d bytes live, want %d", again, got, want)
		}
		out.Drop()
	}
}

// F.linear with a bias flattens contiguous inputs of any rank into one addmm, whose bias cuBLASLt adds: PatchTSMixer has four dimensions, and takes that workspace of 1 MiB on an H200. What is not contiguous is multiplied first.
func TestALinearLayerOfManyDimensionsAddsItsBiasInTheProduct(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		make func(*Process) *Tensor
		lt   bool
	}{
		"four dimensions": {func(p *Process) *Tensor { return p.emptyOf(tensor.Float32, 2, 3, 4, 8) }, true},
		"five dimensions": {func(p *Process) *Tensor { return p.emptyOf(tensor.Float32, 2, 2, 3, 4, 8) }, true},
		"transposed":      {func(p *Process) *Tensor { return p.emptyOf(tensor.Float32, 2, 3, 8, 4).Transpose(2, 3) }, false},
	} {
		p := NewProcess(Device{SMs: 1, ThreadsPerSM: 1024, Major: 9, BlasWorkspace: 32 * units.MiB, BlasLtWorkspace: units.MiB})
		out := Linear(c.make(p), trained(p, 16, 8), trained(p, 16))
		if p.blasLt[0] != c.lt {
			t.Errorf("%s: cuBLASLt %v, want %v", name, p.blasLt[0], c.lt)
		}
		if n := out.Rank(); out.Dim(n-1) != 16 || out.Dim(0) != 2 {
			t.Errorf("%s: result %v", name, out.Sizes)
		}
		out.Drop()
	}
}

// The gradient of a table is written by one kernel up to 3072 indices, whether or not one of them is padding; more are sorted first. Recorded on an H200: Helium's 8 × 128 tokens took nothing beside the gradient, Longformer's 8 × 512 took 13.4 MiB.
func TestFewIndicesAreAddedUpWithoutSorting(t *testing.T) {
	t.Parallel()
	for count, want := range map[int]units.Bytes{1024: 0, 3072: 0, 4096: 13 * units.MiB} {
		p := bare()
		table := trained(p, 30522, 768)
		out := Embedding(p.emptyOf(tensor.Int64, count), table)
		loss := out.Sum(false)
		before := len(p.Tape().Events)
		p.Backward(loss)
		var scratch units.Bytes
		owners := p.Tape().Owners
		for _, e := range p.Tape().Events[before:] {
			if e.Kind == tape.Alloc && owners[e.Owner].Category == tape.Workspace {
				scratch = max(scratch, e.Size)
			}
		}
		if scratch < want || want == 0 && scratch > 0 {
			t.Errorf("%d indices: %s beside the gradient, want %s", count, scratch, want)
		}
	}
}
