package capture

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/script/probe/probetest"
)

// job is what these tests look at in a job file.
type job struct {
	Model             string
	Source            string
	Graph             string
	Batch             int
	ParamDtype        string `json:"param_dtype"`
	Autocast          string
	Optimizer         string
	Accumulate        int
	Loop              string
	ZeroGrad          string `json:"zero_grad"`
	Checkpointing     bool
	CheckpointModules []string `json:"checkpoint_modules"`
	ChannelsLast      bool     `json:"channels_last"`
	Freeze            []string
	ResidentBytes     int64 `json:"resident_bytes"`
	Optimizers        int
	Compiled          bool
	Notes             []string
}

func TestScriptsOfEveryShapeAreCaptured(t *testing.T) {
	t.Parallel()
	python := probetest.Warm(t)
	here, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	script := func(name string) string { return filepath.Join(here, name) }
	for _, c := range []struct {
		name string
		args []string
		want job
		ops  []string // operators the graph must hold
	}{
		{"toplevel", []string{script("toplevel.py")},
			job{Model: "Sequential", Batch: 16, ParamDtype: "fp32", Optimizer: "adamw", Accumulate: 1, Loop: "script"},
			[]string{"linear", "relu", "cross_entropy_loss"}},
		{"functions", []string{script("functions.py"), "--batch", "6"},
			job{Model: "Sequential", Batch: 6, ParamDtype: "fp32", Optimizer: "rmsprop-loop", Accumulate: 1, Loop: "function"},
			[]string{"embedding", "pow", "mean", "sum"}},
		{"classes", []string{script("classes.py")},
			job{Model: "Net", Batch: 8, ParamDtype: "fp32", Autocast: "fp16", Optimizer: "sgdm", Accumulate: 4, Loop: "script"},
			[]string{"conv2d", "batch_norm", "cross_entropy_loss", "div"}},
		{"guarded", []string{script("guarded.py")},
			job{Model: "RNN", Batch: 6, ParamDtype: "fp32", Optimizer: "adam-fused", Accumulate: 1, Loop: "script", ZeroGrad: "before-backward"},
			[]string{"lstm", "cross_entropy_loss"}},
		{"convnet", []string{script("convnet.py")},
			job{Model: "Sequential", Batch: 4, ParamDtype: "fp32", Autocast: "bf16", Optimizer: "sgd", Accumulate: 1, Loop: "script", ZeroGrad: "before-backward", ChannelsLast: true,
				ResidentBytes: 5319 * 4}, // the bucket that DistributedDataParallel keeps for its gradients
			[]string{"conv2d", "adaptive_avg_pool2d"}},
		{"module", []string{"-m", "package.train"},
			job{Model: "TransformerEncoder", Batch: 5, ParamDtype: "fp32", Optimizer: "adamw", Accumulate: 1, Loop: "function"},
			[]string{"scaled_dot_product_attention", "abs", "dropout"}},
		{"trainer", []string{script("hf_trainer.py"), t.TempDir()},
			job{Model: "GPT2LMHeadModel", Batch: 4, ParamDtype: "fp32", Autocast: "bf16", Optimizer: "adamw-fused", Accumulate: 2, Loop: "function",
				Checkpointing: true, CheckpointModules: []string{"model.transformer.h.0", "model.transformer.h.1"},
				ResidentBytes: 4*4*32*8 + 4}, // the second micro-batch, fetched with the first, a mask of ones, and the sum of losses
			[]string{"scaled_dot_product_attention", "cross_entropy_loss"}},
		{"accelerate", []string{script("hf_loop.py")},
			job{Model: "LlamaForCausalLM", Batch: 3, ParamDtype: "bf16", Optimizer: "adamw", Accumulate: 1, Loop: "script"},
			[]string{"scaled_dot_product_attention", "silu", "cross_entropy_loss"}},
		{"frozen", []string{script("frozen.py")},
			job{Model: "Linear", Batch: 9, ParamDtype: "fp32", Optimizer: "adagrad", Accumulate: 1, Loop: "script", ZeroGrad: "before-backward",
				ResidentBytes: (30*40+40)*4 + 9*30*4}, // the backbone and its input
			[]string{"log_softmax", "gather", "neg"}},
		{"lazy", []string{script("lazy.py")},
			job{Model: "Sequential", Batch: 32, ParamDtype: "fp32", Optimizer: "sgdm", Accumulate: 1, Loop: "script"},
			[]string{"conv2d", "batch_norm", "linear"}},
		{"closure", []string{script("closure.py")},
			job{Model: "Deep", Batch: 2, ParamDtype: "fp64", Optimizer: "lbfgs", Accumulate: 1, Loop: "function",
				Checkpointing: true, CheckpointModules: []string{"model.blocks.0", "model.blocks.1", "model.blocks.2"}},
			[]string{"tanh", "mse_loss"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.want.Source, c.want.Graph = "graph", "graph.json.gz"
			got, graph, out := capturedWith(t, append([]string{python}, c.args...), []string{"PYTHONPATH=" + here})
			if a, b := asJSON(t, got), asJSON(t, c.want); a != b {
				t.Errorf("job differs\n want %s\n  got %s", b, a)
			}
			for _, op := range c.ops {
				if !slices.ContainsFunc(graph.ops, func(have string) bool { return strings.HasPrefix(have, "torch.ops.aten."+op+".") }) {
					t.Errorf("the graph lacks %s: %v", op, graph.ops)
				}
			}
			if strings.Contains(out, "trained") {
				t.Error("the script trained")
			}
		})
	}
}

func TestWhatCannotBeCapturedIsSaidWithItsLine(t *testing.T) {
	t.Parallel()
	python := probetest.Warm(t)
	for name, want := range map[string]string{
		"untrained.py": "the script ended without an optimizer step",
		"broken.py":    "broken.py:5: RuntimeError",
		"made_up.py": "made_up.py:13: IndexError: index 1 is out of range " +
			"(tensors have no values in a capture: the value read at made_up.py:12 was made up)",
		"cuda_graph.py": "cuda_graph.py:6: CUDA graphs cannot be captured",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			_, err := Run(Request{Args: []string{python, filepath.Join("testdata", name)}, Env: os.Environ(), Dir: t.TempDir(), Stdout: &out, Stderr: &out})
			var failed Failed
			if !errors.As(err, &failed) || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want one with %q; output %s", err, want, out.String())
			}
		})
	}
}

// capturedGraph is what these tests look at in a graph.
type capturedGraph struct {
	ops    []string
	params int64 // numbers in all parameters
}

// capturedWith captures a command in an environment with more variables and reads the job, its graph and what the command printed.
func capturedWith(t *testing.T, args, env []string) (job, capturedGraph, string) {
	t.Helper()
	dir := t.TempDir()
	var out bytes.Buffer
	path, err := Run(Request{Args: args, Env: append(os.Environ(), env...), Dir: dir, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var j job
	if err := json.Unmarshal(data, &j); err != nil {
		t.Fatal(err)
	}
	return j, readGraph(t, filepath.Join(dir, j.Graph)), out.String()
}

func readGraph(t *testing.T, path string) capturedGraph {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	plain, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var program struct {
		Module struct {
			Graph struct {
				Nodes   []struct{ Target string }
				Outputs []json.RawMessage
				Tensors map[string]struct {
					Sizes []struct {
						Int int64 `json:"as_int"`
					}
				} `json:"tensor_values"`
			}
			Signature struct {
				Inputs []struct {
					Parameter struct{ Arg struct{ Name string } }
				} `json:"input_specs"`
			}
		} `json:"graph_module"`
	}
	if err := json.NewDecoder(plain).Decode(&program); err != nil {
		t.Fatal(err)
	}
	if n := len(program.Module.Graph.Outputs); n == 0 {
		t.Error("the graph has no output")
	}
	var g capturedGraph
	for _, n := range program.Module.Graph.Nodes {
		g.ops = append(g.ops, n.Target)
	}
	for _, in := range program.Module.Signature.Inputs {
		if name := in.Parameter.Arg.Name; name != "" {
			size := int64(1)
			for _, s := range program.Module.Graph.Tensors[name].Sizes {
				size *= s.Int
			}
			g.params += size
		}
	}
	return g
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestOneProcessOfFullyShardHasTheWholeModel(t *testing.T) {
	t.Parallel()
	python := probetest.Warm(t)
	capture := func(env ...string) (string, error) {
		dir := t.TempDir()
		var out bytes.Buffer
		path, err := Run(Request{Args: []string{python, filepath.Join("testdata", "sharded.py")}, Env: append(os.Environ(), env...), Dir: dir, Stdout: &out, Stderr: &out})
		return path, err
	}
	path, err := capture()
	if err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(path); err != nil || !strings.Contains(string(data), "--gpus N --sharding fsdp2") {
		t.Errorf("the job does not say what was left out: %s (%v)", data, err)
	}
	if _, err := capture("WORLD_SIZE=8", "RANK=0"); err == nil || !strings.Contains(err.Error(), "sharded.py:7: a model sharded by FSDP cannot be captured") {
		t.Errorf("of eight processes: %v", err)
	}
}
