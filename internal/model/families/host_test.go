package families

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/testkit/measured"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// hostCase is a small model that PyTorch ran on the host (testdata/host.py): what was alive beside parameters and batch.
type hostCase struct {
	Name          string          `json:"name"`
	Task          string          `json:"task"`
	Config        json.RawMessage `json:"config"`
	Batch         int             `json:"batch"`
	Seq           int             `json:"seq"`
	TargetSeq     int             `json:"target_seq"`
	Image         int             `json:"image"`
	ParamDType    string          `json:"param_dtype"`
	Checkpointing bool            `json:"checkpointing"`
	Params        int             `json:"params"`
	ForwardPeak   units.Bytes     `json:"forward_peak"`
	AfterForward  units.Bytes     `json:"after_forward"`
	AfterBackward units.Bytes     `json:"after_backward"`
}

func hostCases(t *testing.T) []hostCase {
	t.Helper()
	f, err := os.Open("testdata/host.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []hostCase
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var c hostCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		out = append(out, c)
	}
	return out
}

// scalars is what the host keeps as tensors of a few bytes where a card's step has numbers (DeBERTa's scales).
const scalars = 100

func TestTensorsAliveAreThoseOfPyTorch(t *testing.T) {
	t.Parallel()
	for _, c := range hostCases(t) {
		cfg, err := hfconfig.Parse(c.Config)
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		p := eager.NewProcess(eager.H200())
		m, err := New(p, cfg, Spec{Task: c.Task, Batch: c.Batch, Seq: c.Seq, TargetSeq: c.TargetSeq, Image: c.Image, DType: measured.DTypes[torch.DType(c.ParamDType)],
			Attn: "eager", Checkpointing: c.Checkpointing})
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		if err := p.Train(m, eager.Options{Optimizer: "sgd", Steps: 1}); err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		params := 0
		for _, w := range m.Root().Parameters() {
			params += w.Numel()
		}
		if params != c.Params {
			t.Errorf("%s %s: %d parameters, PyTorch %d", c.Name, c.Task, params, c.Params)
		}
		peak, after := alive(p.Tape())
		forward, backward := tape.Moment{Step: 1, Phase: eager.PhaseForward}, tape.Moment{Step: 1, Phase: eager.PhaseBackward}
		compare(t, c, "highest point of forward", peak[forward], c.ForwardPeak)
		compare(t, c, "end of forward", after[forward], c.AfterForward)
		compare(t, c, "end of backward", after[backward], c.AfterBackward)
	}
}

func compare(t *testing.T, c hostCase, moment string, got, want units.Bytes) {
	t.Helper()
	if diff := got - want; diff > scalars || diff < -scalars {
		t.Errorf("%s %s %s checkpointing=%v, %s: %d bytes alive, PyTorch %d (%+d)", c.Name, c.Task, c.ParamDType, c.Checkpointing, moment, got, want, diff)
	}
}

// alive gives for each phase the highest and the last number of bytes beside parameters, batches and workspaces.
func alive(tp *tape.Tape) (peak, after map[tape.Moment]units.Bytes) {
	peak, after = map[tape.Moment]units.Bytes{}, map[tape.Moment]units.Bytes{}
	var now units.Bytes
	var label tape.Moment
	for _, e := range tp.Events {
		if e.Kind == tape.Mark {
			label = tp.Moments[e.Owner]
			continue
		}
		switch tp.Owners[e.Owner].Category {
		case tape.Workspace, tape.Inputs, tape.Parameters:
			continue
		}
		if e.Kind == tape.Alloc {
			now += e.Size
		} else {
			now -= e.Size
		}
		peak[label], after[label] = max(peak[label], now), now
	}
	return peak, after
}
