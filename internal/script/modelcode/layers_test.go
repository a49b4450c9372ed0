package modelcode

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/script/probe"
	"github.com/plimsoll/plimsoll/internal/script/probe/probetest"
)

// readTwice reads a model whose fourth layers differ from the others: with the layers left out that are alike at one size, and with all of them.
const readTwice = `
import torch, transformers
from plimsoll import _layers, _models
config = {"model_type": "olmo3", "hidden_size": 64, "num_hidden_layers": 13, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 500, "sliding_window": 16}
request = {"config": config, "batch": 2, "seq": 32, "param_dtype": "fp32"}
shortened = []
written = _layers.Shorter.written
_layers.Shorter.written = lambda self, short: shortened.append(len(short.nodes) < len(self.whole.nodes)) or written(self, short)
short = _models.describe(request)
_layers.Shorter.find = lambda self, stack: None
print(bool(shortened) and all(shortened), short == _models.describe(request))
`

func TestLayersThatAreAlikeAreReadOnceAtFurtherSizes(t *testing.T) {
	t.Parallel()
	python, dir := probetest.Python(t), t.TempDir()
	if err := probe.Install(dir); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "-c", readTwice)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+dir, "CUDA_VISIBLE_DEVICES=", "HF_HUB_OFFLINE=1")
	out, err := cmd.Output()
	if err != nil || strings.TrimSpace(string(out)) != "True True" {
		t.Errorf("shortened, and the same graph: %s%v", out, err)
	}
}
