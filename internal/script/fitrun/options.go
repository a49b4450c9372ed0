package fitrun

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/script/forecast"
)

// Names that scripts give to the samples of a micro-batch and to the micro-batches of a step, the usual ones first.
var (
	batchNames      = []string{"per_device_train_batch_size", "micro_batch_size", "train_batch_size", "batch_size", "batch-size", "bs"}
	accumulateNames = []string{
		"gradient_accumulation_steps", "gradient-accumulation-steps", "accumulation_steps", "grad_accum_steps", "accum_steps", "accum_iter", "accumulate_grad_batches",
	}
)

// ownOptions are the script's own options that train the same in less memory; empty where it has none for batch and accumulation.
func ownOptions(args []string, source string, own forecast.Own) string {
	batch, accumulate := optionOf(batchNames, args, source), optionOf(accumulateNames, args, source)
	if own.Batch == 0 || batch == "" || accumulate == "" {
		return ""
	}
	return fmt.Sprintf("--%s=%d --%s=%d", batch, own.Batch, accumulate, own.Accumulate)
}

// optionOf is the first of some names that the command line uses or the script declares: to argparse or click by name, to a parser that turns fields or
// variables into options as a field or variable.
func optionOf(names, args []string, source string) string {
	for _, name := range names {
		if slices.ContainsFunc(args, func(a string) bool { return a == "--"+name || strings.HasPrefix(a, "--"+name+"=") }) {
			return name
		}
	}
	fields := regexp.MustCompile(`\b(HfArgumentParser|configurator|simple_parsing|tyro|jsonargparse|fire)\b`).MatchString(source)
	trainer := strings.Contains(source, "HfArgumentParser") && strings.Contains(source, "TrainingArguments")
	for _, name := range names {
		declared := strings.Contains(source, `"--`+name+`"`) || strings.Contains(source, `'--`+name+`'`)
		field := fields && regexp.MustCompile(`(?m)^\s*`+regexp.QuoteMeta(name)+`\s*(:[^=\n]+)?=`).MatchString(source)
		if declared || field || trainer && slices.Contains(trainerNames, name) {
			return name
		}
	}
	return ""
}

// trainerNames are options of every script that parses TrainingArguments.
var trainerNames = []string{"per_device_train_batch_size", "gradient_accumulation_steps", "gradient_checkpointing", "bf16", "fp16", "tf32"}

// scriptSize bounds what is read of a script.
const scriptSize = 1 << 20

// sourceOf is the text of the Python file that a command runs; empty where there is none.
func sourceOf(args []string) string {
	for _, arg := range args {
		if !strings.HasSuffix(arg, ".py") {
			continue
		}
		f, err := os.Open(arg)
		if err != nil {
			continue
		}
		text, _ := io.ReadAll(io.LimitReader(f, scriptSize))
		f.Close()
		return string(text)
	}
	return ""
}
