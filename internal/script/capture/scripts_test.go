package capture

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/script/probe/probetest"
)

// The scripts of testdata as people write them, with cuda hard-coded in every way there is. What is wanted is counted by hand from the script.
func TestScriptsAsPeopleWriteThemAreCaptured(t *testing.T) {
	t.Parallel()
	python := probetest.Warm(t)
	block := func(dim int64) int64 { return 12*dim*dim + 13*dim } // of a GPT: norms, attention, MLP
	for _, c := range []struct {
		name   string
		args   []string
		env    []string
		want   job
		params int64
		ops    []string
	}{
		// The graph lists the tied embedding twice. Beside the step lies the batch fetched ahead.
		{"nanoGPT", []string{"nanogpt.py"}, nil,
			job{Model: "GPT", Batch: 4, ParamDtype: "fp32", Autocast: "bf16", Optimizer: "adamw-fused", Accumulate: 5, Loop: "script", Compiled: true,
				ResidentBytes: 2 * 4 * 32 * 8},
			2*65*32 + 32*32 + 2*block(32) + 2*32, []string{"scaled_dot_product_attention", "cross_entropy_loss", "gelu"}},
		{"vision", []string{"vision.py", "-b", "8"}, nil,
			// On the card beside the step: the average of the weights, the next batch, the labels of this and the next, the normalisation's constants.
			job{Model: "ResNet", Batch: 8, ParamDtype: "fp32", Autocast: "fp16", Optimizer: "sgdm", Accumulate: 1, Loop: "script", ZeroGrad: "before-backward", ChannelsLast: true,
				ResidentBytes: (9994*4 + 5*(2*16*4+8)) + 8*3*32*32*4 + 2*8*8 + 2*3*4},
			9994, []string{"conv2d", "batch_norm", "log_softmax"}},
		{"gan", []string{"gan.py"}, nil,
			job{Model: "Generator", Batch: 12, ParamDtype: "fp32", Optimizer: "adam", Accumulate: 1, Loop: "script", ResidentBytes: 12*16*16*4 + 12*4,
				Optimizers: 2, Notes: []string{"2 optimizers step in each iteration: this is the step that keeps the most for backward, gan.py:55"}},
			(20*64 + 64) + (64*128 + 128) + 2*128 + (128*256 + 256) + (256*32 + 32) + (32 + 1), []string{"binary_cross_entropy", "batch_norm", "tanh"}},
		{"contrastive", []string{"contrastive.py"}, nil,
			job{Model: "ImageEncoder", Batch: 10, ParamDtype: "fp32", Optimizer: "adamw", Accumulate: 1, Loop: "script", ZeroGrad: "before-backward"},
			(3*16*8 + 8) + (128*16 + 16) + 50*24 + (4*24*24 + 4*24) + (2*24*48 + 72) + 4*24 + (24*16 + 16) + 1, []string{"conv2d", "exp", "cross_entropy_loss"}},
		{"checkpointed functions", []string{"checkpointed.py", "reentrant"}, nil,
			job{Model: "Net", Batch: 6, ParamDtype: "fp32", Optimizer: "sgd", Accumulate: 1, Loop: "script", Checkpointing: true,
				CheckpointModules: []string{"regions.0", "regions.1", "regions.2", "regions.3", "regions.4"}},
			(8*32 + 32) + 2*(8*32*32+7*32) + 6*(32*32+32), []string{"gelu", "tanh", "relu"}},
		{"teacher", []string{"teacher.py"}, nil,
			job{Model: "Sequential", Batch: 6, ParamDtype: "fp32", Autocast: "fp16", Optimizer: "adamw", Accumulate: 1, Loop: "script", ZeroGrad: "before-backward",
				ResidentBytes: 29864*4 + 4*6*3*64*4}, // the teacher and the crops
			29864, []string{"log_softmax", "gelu"}},
		{"stream", []string{"streamed.py"}, nil,
			job{Model: "Tagger", Batch: 5, ParamDtype: "fp32", Autocast: "fp16", Optimizer: "adam", Accumulate: 1, Loop: "script", ResidentBytes: 5 * 8},
			90*24 + 4*40*(24+40+2) + 4*40*(40+40+2) + (40*90 + 90), []string{"lstm", "cross_entropy_loss"}},
		{"resumed", []string{"resumed.py"}, nil, // the checkpoint stays on the card beside the model
			job{Model: "Sequential", Batch: 14, ParamDtype: "fp32", Optimizer: "adadelta", Accumulate: 1, Loop: "script", ZeroGrad: "before-backward", ResidentBytes: 1942 * 4},
			1942, []string{"conv1d", "cross_entropy_loss"}},
		{"rank", []string{"ddp.py"}, []string{"RANK=0", "LOCAL_RANK=0", "WORLD_SIZE=1", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=0"},
			job{Model: "Sequential", Batch: 8, ParamDtype: "fp32", Optimizer: "adamw-loop", Accumulate: 3, Loop: "script"},
			12*30 + 30 + 60 + 30*4 + 4, []string{"batch_norm", "cross_entropy_loss"}},
		{"rank that copies its gradients", []string{"ddp.py"}, []string{"RANK=0", "LOCAL_RANK=0", "WORLD_SIZE=1", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=0", "COPIES=1"},
			job{Model: "Sequential", Batch: 8, ParamDtype: "fp32", Optimizer: "adamw-loop", Accumulate: 3, Loop: "script",
				ResidentBytes: (12*30 + 30 + 60 + 30*4 + 4) * 4}, // DDP's buckets, of one process too
			12*30 + 30 + 60 + 30*4 + 4, []string{"batch_norm", "cross_entropy_loss"}},
		{"config file", []string{"configured.py", "--config", filepath.Join("testdata", "configured.json"), "--batch-size", "9"}, nil,
			job{Model: "Model", Batch: 9, ParamDtype: "fp32", Autocast: "bf16", Optimizer: "adamw-fused", Accumulate: 3, Loop: "function", Compiled: true,
				Notes: []string{"torch.compile records CUDA graphs in this mode: what their private pools hold is not predicted, and may be more than this"}},
			(10*20 + 20) + 2*(2*20+20*20+20) + 21, []string{"silu", "layer_norm", "huber_loss"}},
		{"diffusion", []string{"diffusion.py"}, nil,
			job{Model: "Diffusion", Batch: 10, ParamDtype: "fp32", Optimizer: "adam", Accumulate: 2, Loop: "script", ResidentBytes: (4321 + 2*100) * 4}, // its average
			4321, []string{"gather", "conv_transpose2d", "mse_loss"}},
		{"questions about the card", []string{"cuda_api.py"}, nil,
			job{Model: "Linear", Batch: 4, ParamDtype: "fp32", Autocast: "fp16", Optimizer: "adam-fused", Accumulate: 1, Loop: "function"},
			27, []string{"linear"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.want.Source, c.want.Graph = "graph", "graph.json.gz"
			c.args[0] = filepath.Join("testdata", c.args[0])
			got, graph, out := capturedWith(t, append([]string{python}, c.args...), c.env)
			if a, b := asJSON(t, got), asJSON(t, c.want); a != b {
				t.Errorf("job differs\n want %s\n  got %s", b, a)
			}
			if graph.params != c.params {
				t.Errorf("%d parameters, want %d", graph.params, c.params)
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
