package eager

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/units"
)

// measurement is one operator measured alone.
type measurement struct {
	Op          string       `json:"op"`
	Mode        string       `json:"mode"`
	Shapes      [][]int      `json:"input_shapes"`
	OutputBytes units.Bytes  `json:"output_bytes"`
	KeptWithOut *units.Bytes `json:"kept_with_output"`
	Kept        *units.Bytes `json:"kept"`
	Forward     units.Bytes  `json:"fwd_peak"`
	Backward    units.Bytes  `json:"bwd_peak"`
	AfterBwd    units.Bytes  `json:"after_bwd"`
}

func measurements(t *testing.T) []measurement {
	t.Helper()
	f, err := os.Open("testdata/ops.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var out []measurement
	lines := bufio.NewScanner(z)
	for lines.Scan() {
		var m measurement
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		if m.Op != "" && m.Kept != nil {
			out = append(out, m)
		}
	}
	return out
}

// bench is one replay: a process, its inputs and the type of the parameters it makes.
type bench struct {
	p  *Process
	x  []*Tensor
	d  tensor.DType
	cl bool // channels_last
	w  []*Tensor
}

func (b *bench) param(sizes ...int) *Tensor {
	l := tensor.Of(sizes...)
	if b.cl && len(sizes) == 4 {
		l = tensor.ChannelsLast(sizes...)
	}
	t := b.p.empty(l, b.d).Retain()
	t.requires = true
	b.w = append(b.w, t)
	return t
}

func (b *bench) constant(d tensor.DType, sizes ...int) *Tensor {
	t := b.p.emptyOf(d, sizes...).Retain()
	b.w = append(b.w, t)
	return t
}

// levels are the five numbers of a measurement.
type levels struct{ keptOut, kept, forward, backward, after units.Bytes }

// replay runs an operator as it was measured: forward, then either the result is dropped or backward runs with a given
// gradient.
func replay(m measurement, build func(b *bench) func() *Tensor, dropped bool) (levels, error) {
	p := NewProcess(H200())
	b := &bench{p: p, d: tensor.Float32, cl: strings.HasSuffix(m.Op, "_cl")}
	if m.Mode == "bf16" {
		b.d = tensor.BFloat16
	}
	var out levels
	err := p.Guard(func() {
		p.blas, p.blasLt = [2]bool{true, true}, [2]bool{true, true} // warmed up
		for _, s := range m.Shapes {
			l := tensor.Of(s...)
			if b.cl && len(s) == 4 {
				l = tensor.ChannelsLast(s...)
			}
			d := b.d
			if m.Op == "embedding" {
				d = tensor.Int64
			}
			t := p.empty(l, d).Retain()
			t.requires = d.Floating()
			b.x = append(b.x, t)
		}
		run := build(b)
		p.Mark(tape.Moment{Phase: "before"})
		var y *Tensor
		if m.Mode == "amp" {
			p.Autocast(tensor.BFloat16, func() { y = run() })
		} else {
			y = run()
		}
		y.Retain()
		p.Mark(tape.Moment{Phase: "forward done"})
		if dropped {
			y.gradEdge().refs++
			y.Release()
			p.Mark(tape.Moment{Phase: "kept"})
			return
		}
		g := p.empty(y.Like(), y.DType).Retain()
		p.Mark(tape.Moment{Phase: "backward"})
		p.grad, p.thread = false, 1
		g.Retain()
		p.runEngine(y.gradEdge(), y.output, g)
		y.Release()
		p.Mark(tape.Moment{Phase: "after"})
	})
	if err != nil {
		return out, err
	}
	return measure(p.Tape(), m.OutputBytes)
}

func measure(t *tape.Tape, gradient units.Bytes) (levels, error) {
	var out levels
	at := map[string]units.Bytes{}
	high := map[string]units.Bytes{}
	label := ""
	_, err := alloc.Run(t, alloc.Policy{}, func(i int, a *alloc.Allocator) {
		now := a.Stats().Allocated
		if e := t.Events[i]; e.Kind == tape.Mark {
			label = t.Moments[e.Owner].Phase
			at[label] = now
		}
		high[label] = max(high[label], now)
	})
	base := at["before"]
	out.keptOut, out.kept = at["forward done"]-base, at["kept"]-base
	out.forward = high["before"] - base
	out.backward = high["backward"] - at["backward"]
	out.after = at["after"] - base - gradient
	return out, err
}

// tolerance is the study's: blocks that are not split count whole, so a number may be off by a block's rounding.
const tolerance = 2252 * units.KiB

func TestSingleOperatorsKeepAndNeedWhatWasMeasured(t *testing.T) {
	t.Parallel()
	good, bad := 0, 0
	unknown := map[string]bool{}
	for _, m := range measurements(t) {
		build, ok := replays[strings.TrimSuffix(m.Op, "_cl")]
		if !ok {
			unknown[m.Op] = true
			continue
		}
		got, err := replay(m, build, false)
		if err == nil {
			var alone levels
			alone, err = replay(m, build, true)
			got.kept = alone.kept
		}
		if err != nil {
			t.Errorf("%s %s: %v", m.Op, m.Mode, err)
			continue
		}
		want := levels{*m.KeptWithOut, *m.Kept, m.Forward, m.Backward, m.AfterBwd}
		if near(got, want) {
			good++
			continue
		}
		bad++
		t.Logf("%-24s %-4s kept+out %7.2f/%7.2f kept %7.2f/%7.2f forward %7.2f/%7.2f backward %7.2f/%7.2f after %7.2f/%7.2f", m.Op, m.Mode,
			mib(got.keptOut), mib(want.keptOut), mib(got.kept), mib(want.kept), mib(got.forward), mib(want.forward),
			mib(got.backward), mib(want.backward), mib(got.after), mib(want.after))
	}
	t.Logf("%d operators agree, %d do not; not replayed: %v", good, bad, unknown)
	if good < 300 {
		t.Errorf("%d operators agree with their measurement, want at least 300", good)
	}
}

func mib(b units.Bytes) float64 { return float64(b) / float64(units.MiB) }

func near(a, b levels) bool {
	for _, d := range []units.Bytes{a.keptOut - b.keptOut, a.kept - b.kept, a.forward - b.forward, a.backward - b.backward, a.after - b.after} {
		if d > tolerance || d < -tolerance {
			return false
		}
	}
	return true
}
