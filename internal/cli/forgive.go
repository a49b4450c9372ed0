package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/plimsoll/plimsoll/internal/spelling"
)

// flagSpellings are other names of flags: those of transformers, accelerate and of people's own scripts.
var flagSpellings = map[string]string{
	"batch-size": "batch", "per-device-train-batch-size": "batch", "train-batch-size": "batch", "bs": "batch",
	"seq-len": "seq", "seq-length": "seq", "sequence-length": "seq", "max-seq-length": "seq", "max-seq-len": "seq", "max-length": "seq", "context-length": "seq",
	"target-seq-len": "target-seq", "image-size": "image", "img-size": "image",
	"dtype": "precision", "torch-dtype": "precision", "mixed-precision": "precision",
	"attn-implementation": "attn", "attention": "attn", "optim": "optimizer",
	"gradient-checkpointing": "checkpointing", "activation-checkpointing": "checkpointing",
	"gradient-accumulation-steps": "accumulate", "accumulation-steps": "accumulate", "grad-accum": "accumulate",
	"num-gpus": "gpus", "n-gpus": "gpus", "nproc-per-node": "gpus", "card": "gpu", "device-name": "gpu",
	"vram": "memory", "gpu-memory": "memory", "lora-r": "lora-rank", "lora-target-modules": "lora-targets", "target-modules": "lora-targets",
	"global-batch-size": "effective-batch", "total-batch-size": "effective-batch", "effective-batch-size": "effective-batch", "micro-batch-size": "micro-batch",
	"model-name-or-path": "model", "pretrained-model-name-or-path": "model", "fsdp": "sharding", "tp": "tensor", "pp": "stages",
}

// spelled is the name of a flag however it was written: seq_len, --seq-len and --seq are the same.
func spelled(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	name = strings.ReplaceAll(name, "_", "-")
	if usual := flagSpellings[name]; usual != "" {
		name = usual
	}
	return pflag.NormalizedName(name)
}

// flagProblem says what is wrong with a flag: its name, the value, and what would be right.
func flagProblem(cmd *cobra.Command, err error) string {
	var unknown *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		name := unknown.GetSpecifiedShortnames()
		return "unknown flag -" + name + didYouMean(cmd, name)
	case errors.As(err, &unknown):
		name := unknown.GetSpecifiedName()
		return "unknown flag --" + name + didYouMean(cmd, name)
	case errors.As(err, &missing):
		return fmt.Sprintf("--%s needs a value: %s", missing.GetFlag().Name, missing.GetFlag().Usage)
	case errors.As(err, &invalid):
		return fmt.Sprintf("--%s %.60s: %s", invalid.GetFlag().Name, invalid.GetValue(), wrongValue(invalid))
	}
	return err.Error()
}

// wrongValue says what a value is not.
func wrongValue(e *pflag.InvalidValueError) string {
	switch e.GetFlag().Value.Type() {
	case "int":
		return "not a whole number"
	case "intSlice":
		return "not a list of whole numbers like 1,2,4"
	case "float64":
		return "not a number"
	case "duration":
		return "not a duration like 90s, 5m or 1h"
	case "bool":
		return "not true or false; the flag alone turns it on"
	}
	return e.Unwrap().Error()
}

// didYouMean names the flags that were probably meant by one that does not exist.
func didYouMean(cmd *cobra.Command, wrong string) string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if len(wrong) < 2 {
		return ""
	}
	if near := spelling.Near(strings.ReplaceAll(wrong, "_", "-"), names); len(near) > 0 {
		return "; did you mean --" + strings.Join(near, " or --") + "?"
	}
	return ""
}

// plainText is an error as a person reads it: no names of system calls, of types or of Go's packages.
func plainText(err error) string {
	text := err.Error()
	var path *fs.PathError
	if errors.As(err, &path) {
		text = strings.Replace(text, path.Error(), path.Path+": "+whyNotRead(path), 1)
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		text = strings.Replace(text, syntax.Error(), fmt.Sprintf("not valid JSON at byte %d", syntax.Offset), 1)
	}
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		text = strings.Replace(text, kind.Error(), fmt.Sprintf("%q is a %s here and must be %s", kind.Field, kind.Value, jsonKind(kind)), 1)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		text = strings.Replace(text, io.ErrUnexpectedEOF.Error(), "the text ends too early", 1)
	}
	return text
}

func jsonKind(e *json.UnmarshalTypeError) string {
	switch e.Type.Kind().String() {
	case "int", "int64", "float64":
		return "a number"
	case "bool":
		return "true or false"
	case "slice":
		return "a list"
	case "string":
		return "a string"
	}
	return "an object"
}

// whyNotRead is the reason a file cannot be read; where its name is nearly that of another file, that one is named.
func whyNotRead(e *fs.PathError) string {
	switch {
	case errors.Is(e, fs.ErrNotExist):
		if near := nearFile(e.Path); near != "" {
			return "no such file; did you mean " + near + "?"
		}
		return "no such file or folder"
	case errors.Is(e, fs.ErrPermission):
		return "permission denied"
	case errors.Is(e, syscall.EISDIR):
		return "this is a folder, not a file"
	}
	return e.Err.Error()
}

// maxNear is how many files of a folder are compared with a name that does not exist.
const maxNear = 2000

func nearFile(path string) string {
	dir := filepath.Dir(path)
	f, err := os.Open(dir)
	if err != nil {
		return ""
	}
	defer f.Close()
	names, _ := f.Readdirnames(maxNear)
	base := filepath.Base(path)
	for _, ending := range []string{".gz", ".json", ".zst"} {
		for _, n := range names {
			if n == base+ending {
				return filepath.Join(dir, n)
			}
		}
	}
	if near := spelling.Near(base, names); len(near) == 1 {
		return filepath.Join(dir, near[0])
	}
	return ""
}

// pipedArg is the argument that stands for standard input, where something is piped into it; no argument where nothing is.
func pipedArg(env Env) (io.Reader, []string) {
	if in := piped(env); in != nil {
		return in, []string{"-"}
	}
	return env.Stdin, nil
}

// piped gives standard input where something is piped into it, and nil where nothing is.
func piped(env Env) io.Reader {
	if env.StdinIsTerminal || env.Stdin == nil {
		return nil
	}
	stop := progress(env, func() string { return "waiting for standard input" })
	defer stop()
	in := bufio.NewReader(env.Stdin)
	if _, err := in.Peek(1); err != nil {
		return nil
	}
	return in
}
