package capture_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/gpu"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/exported"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/script/capture"
	"github.com/plimsoll/plimsoll/internal/script/probe/probetest"
	"github.com/plimsoll/plimsoll/internal/units"
)

// The same script run for real on the CPU tells what it keeps for backward: autograd's own saved tensors, and what the script refers to.
func TestACaptureKeepsForBackwardWhatTheScriptReallyKeeps(t *testing.T) {
	t.Parallel()
	python := probetest.Warm(t)
	config := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(config, []byte(`{"width": 48, "depth": 4, "precision": "fp32", "batch_size": 33}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		script  string
		args    []string
		real    []string    // what the real run needs beside
		differs units.Bytes // the GPU's kernels keep so much more than the CPU's
		why     string
	}{
		{"configured.py", []string{"--config", config}, nil, 33 * 4, "targets computed from the inputs are part of the captured step"},
		{"accelerated.py", []string{"--mixed_precision", "no"}, nil, -3 * 7 * 64, "dropout's mask is of bytes on a GPU, of floats on the CPU (ATen/native/Dropout.cpp)"},
		{"diffusion.py", nil, nil, 0, ""},
		{"nanogpt.py", []string{"--dtype=float32", "--compile="}, []string{"--device=cpu"}, 0, ""},
	} {
		t.Run(c.script, func(t *testing.T) {
			t.Parallel()
			script := filepath.Join("testdata", c.script)
			params, kept := truth(t, python, append([]string{script}, append(c.args, c.real...)...))
			r := predicted(t, append([]string{python, script}, c.args...))
			if r.Report.Trainable != params {
				t.Errorf("%d parameters, want %d", r.Report.Trainable, params)
			}
			if got := keptForBackward(r.Tape); got != kept+c.differs {
				t.Errorf("kept for backward: %d bytes, want %d and %d (%s)", got, kept, c.differs, c.why)
			}
		})
	}
}

func truth(t *testing.T, python string, args []string) (params int64, kept units.Bytes) {
	t.Helper()
	out, err := exec.Command(python, append([]string{filepath.Join("testdata", "oracle.py")}, args...)...).CombinedOutput()
	_, answer, found := strings.Cut(string(out), "oracle {")
	var said struct {
		Parameters int64
		Kept       units.Bytes
	}
	if err != nil || !found || json.Unmarshal([]byte("{"+answer), &said) != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return said.Parameters, said.Kept
}

func predicted(t *testing.T, args []string) *predict.Result {
	t.Helper()
	var out bytes.Buffer
	path, err := capture.Run(capture.Request{Args: args, Env: os.Environ(), Dir: t.TempDir(), Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	j, err := job.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(filepath.Dir(path), j.Graph))
	if err != nil {
		t.Fatal(err)
	}
	g, err := exported.Read(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	card, err := gpu.Find("h200")
	if err != nil {
		t.Fatal(err)
	}
	r, err := predict.Run(j, predict.Source{Graph: g}, predict.Machine{Card: card})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// keptForBackward is what the first forward pass leaves behind.
func keptForBackward(tp *tape.Tape) units.Bytes {
	var now units.Bytes
	for i := range tp.Events {
		e := &tp.Events[i]
		if e.Kind == tape.Mark && tp.Moments[e.Owner] == (tape.Moment{Step: 1, Phase: eager.PhaseBackward}) {
			return now
		}
		if e.Kind != tape.Mark && tp.Owners[e.Owner].Category == tape.Activations {
			now += e.Change()
		}
	}
	panic(fmt.Sprintf("no backward in %v", tp.Moments))
}
