package eager

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"testing"

	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// optimizerRow is one measured optimizer: peak and kept bytes of three steps on 40 tensors.
type optimizerRow struct {
	Optimizer string           `json:"optimizer"`
	Form      string           `json:"form"`
	DType     string           `json:"dtype"`
	Params    units.Bytes      `json:"param_bytes"`
	Steps     [][2]units.Bytes `json:"step_peak_and_kept"`
}

func optimizerRows(t *testing.T) []optimizerRow {
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
	var out []optimizerRow
	lines := bufio.NewScanner(z)
	for lines.Scan() {
		var head struct {
			Optimizer string `json:"optimizer"`
		}
		if err := json.Unmarshal(lines.Bytes(), &head); err != nil {
			t.Fatal(err)
		}
		if head.Optimizer == "" {
			continue
		}
		var r optimizerRow
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// encoderParams are three transformer layers of width 1024 and a head: close to what was measured in number and sizes.
func encoderParams(p *Process, d tensor.DType) []*Tensor {
	m := NewModel(p, d)
	for i := range 3 {
		l := m.Item(i)
		l.Linear("in_proj", 1024, 3072, true)
		l.Linear("out_proj", 1024, 1024, true)
		l.Linear("linear1", 1024, 4096, true)
		l.Linear("linear2", 4096, 1024, true)
		l.LayerNorm("norm1", 1024)
		l.LayerNorm("norm2", 1024)
	}
	m.Linear("head", 1024, 4096, true)
	m.Linear("classes", 1024, 200, true)
	m.Load()
	return m.Parameters()
}

// formName is the name of an optimizer in a form: foreach is the default but for Adafactor.
func formName(r optimizerRow) (torch.Optimizer, bool) {
	name := map[string]string{"adam_amsgrad": "amsgrad"}[r.Optimizer]
	if name == "" {
		name = r.Optimizer
	}
	switch r.Form {
	case "default":
	case "foreach":
		if name == "adafactor" {
			return "", false
		}
	default:
		if name != "adafactor" && name != "sgd" && name != "sgdm" {
			name += "-" + r.Form
		}
	}
	_, ok := torch.Optimizer(name).Algorithm()
	return torch.Optimizer(name), ok
}

// listSize is the size of one list of tensors like the parameters, in blocks: what SGD's momentum was measured to keep.
func listSize(rows []optimizerRow, dtype string) float64 {
	for _, r := range rows {
		if r.Optimizer == "sgdm" && r.DType == dtype {
			return float64(r.Steps[0][1])
		}
	}
	return 0
}

func TestOptimizersKeepAndNeedWhatWasMeasured(t *testing.T) {
	t.Parallel()
	rows := optimizerRows(t)
	compared := 0
	for _, r := range rows {
		name, ok := formName(r)
		if !ok {
			continue
		}
		compared++
		d := tensor.Float32
		if r.DType == "bf16" {
			d = tensor.BFloat16
		}
		p := NewProcess(H200())
		p.blas[0] = true
		params := encoderParams(p, d)
		var total units.Bytes
		for _, w := range params {
			total += w.Bytes()
			w.grad = p.empty(w.Layout, w.DType).Retain()
		}
		o, err := newOptimizer(p, name, params)
		if err != nil {
			t.Fatal(err)
		}
		for step := range 2 {
			p.Mark(tape.Moment{Phase: []string{"first", "second"}[step]})
			o.step()
		}
		p.Mark(tape.Moment{Phase: "end"})
		at, high := stepLevels(t, p.Tape())
		unit := listSize(rows, r.DType)
		differs := func(what string, got, want units.Bytes) {
			g, w := float64(got)/float64(total), float64(want)/unit
			if g-w > 0.05 || w-g > 0.05 {
				t.Errorf("%s %s %s: %s %.3f lists of parameters, measured %.3f", r.Optimizer, r.Form, r.DType, what, g, w)
			}
		}
		differs("the first step needs", high["first"]-at["first"], r.Steps[0][0])
		differs("the second step needs", high["second"]-at["second"], r.Steps[1][0])
		differs("it keeps", at["second"]-at["first"], r.Steps[0][1])
	}
	if compared < 60 {
		t.Errorf("%d measured optimizers compared, want at least 60", compared)
	}
}

func stepLevels(t *testing.T, tp *tape.Tape) (at, high map[string]units.Bytes) {
	t.Helper()
	at, high = map[string]units.Bytes{}, map[string]units.Bytes{}
	label := ""
	_, err := alloc.Run(tp, alloc.Policy{}, func(i int, a *alloc.Allocator) {
		now := a.Stats().Allocated
		if e := tp.Events[i]; e.Kind == tape.Mark {
			label = tp.Moments[e.Owner].Phase
			at[label] = now
		}
		high[label] = max(high[label], now)
	})
	if err != nil {
		t.Fatal(err)
	}
	return at, high
}
