package fitrun

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/setup"
)

func TestAChangeIsSaidInTheScriptsOwnOptions(t *testing.T) {
	t.Parallel()
	from := setup.Setup{MicroBatch: 32, Accumulate: 1, Precision: "fp32", Checkpointing: setup.None, Optimizer: "adamw", Attn: "sdpa", Loop: setup.Function, GPUs: 1}
	to := from
	to.MicroBatch, to.Accumulate, to.Checkpointing, to.Optimizer, to.Conf = 8, 4, setup.Full, "adamw-fused", "expandable_segments:True"
	for name, c := range map[string]struct {
		source  string
		args    []string
		command string // after the script's name
		code    []string
	}{
		"argparse": {
			`p.add_argument("--batch-size", type=int); p.add_argument("--accum_steps", type=int); p.add_argument("--grad-checkpointing", action="store_true")`,
			[]string{"--batch-size", "32", "--name", "it's mine"}, `--batch-size 8 --name 'it'\''s mine' --accum_steps=4 --grad-checkpointing`, []string{"torch.optim.AdamW(parameters, ..., fused=True)"},
		},
		"transformers": {
			"HfArgumentParser(TrainingArguments)", []string{"--per_device_train_batch_size=32"},
			"--per_device_train_batch_size=8 --gradient_accumulation_steps=4 --gradient_checkpointing --optim=adamw_torch_fused", nil,
		},
		"no options": {"x = 1", nil, "", []string{
			"DataLoader(..., batch_size=8)", "(loss / 4).backward(), and optimizer.step() and zero_grad() after every 4 batches", "model.gradient_checkpointing_enable()", "torch.optim.AdamW(parameters, ..., fused=True)",
		}},
	} {
		script := filepath.Join(t.TempDir(), "train.py")
		if err := os.WriteFile(script, []byte(c.source), 0o600); err != nil {
			t.Fatal(err)
		}
		got := ChangeOf(append([]string{"python", script}, c.args...), from, to, true)
		want := strings.TrimSpace("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python " + script + " " + c.command)
		if got.Command != want || !slices.Equal(got.Code, c.code) {
			t.Errorf("%s:\n%s\n%q\nwant\n%s\n%q", name, got.Command, got.Code, want, c.code)
		}
	}
	if same := ChangeOf([]string{"python", "train.py"}, from, from, true); same.Command != "" || len(same.Code) != 0 {
		t.Errorf("nothing changes, and %+v is said", same)
	}
}
