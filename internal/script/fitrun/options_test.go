package fitrun

import (
	"testing"

	"github.com/plimsoll/plimsoll/internal/script/forecast"
)

func TestTheScriptsOwnOptionsAreFound(t *testing.T) {
	t.Parallel()
	own := forecast.Own{Batch: 4, Accumulate: 12}
	for name, c := range map[string]struct {
		args   []string
		source string
		want   string
	}{
		"argparse":            {nil, `p.add_argument("--batch-size", type=int); p.add_argument('--accum_steps', type=int)`, "--batch-size=4 --accum_steps=12"},
		"on the command line": {[]string{"python", "x.py", "--bs=64", "--accum_iter", "1"}, "", "--bs=4 --accum_iter=12"},
		"nanoGPT":             {nil, "batch_size = 12 # micro\ngradient_accumulation_steps = 5 * 8\nexec(open('configurator.py').read())", "--batch_size=4 --gradient_accumulation_steps=12"},
		"transformers":        {nil, "parser = HfArgumentParser((ModelArguments, TrainingArguments))", "--per_device_train_batch_size=4 --gradient_accumulation_steps=12"},
		"variables only":      {nil, "batch_size = 12\ngradient_accumulation_steps = 4\n", ""},
		"no accumulation":     {nil, `p.add_argument("--batch-size", type=int)`, ""},
	} {
		if got := ownOptions(c.args, c.source, own); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if got := ownOptions(nil, `"--batch_size" "--accum_steps"`, forecast.Own{}); got != "" {
		t.Errorf("nothing fits, said %q", got)
	}
}
