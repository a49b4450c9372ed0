// Package planfile writes a plan in the form a training framework reads.
//
// In go a plan and what is known of the model; out comes text: a plain PyTorch module, TrainingArguments, an Accelerate configuration, a DeepSpeed JSON,
// an FSDP2 module, Lightning's Trainer arguments, a torchrun command. Each form is held to the real library by tests. Refused, with the reason: formats that
// are not known, and plans a framework has no words for.
package planfile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/torch"
)

// Model is what the forms need to know beside the plan.
type Model struct {
	Hub    bool   // a model of transformers
	Family string // its model_type
	Title  string // the job in a few words

	Modules []string // of a model that is not transformers': paths of what may be checkpointed, in the order of their calls
}

type writer func(p report.Plan, m Model) (string, error)

// formats by name.
var formats = []struct {
	name  string
	write writer
}{
	{"torch", writeTorch}, {"trainer", writeTrainer}, {"accelerate", writeAccelerate}, {"deepspeed", writeDeepSpeed},
	{"fsdp2", writeFSDP2}, {"lightning", writeLightning}, {"torchrun", writeTorchrun},
}

// Formats lists the names.
func Formats() []string {
	var out []string
	for _, f := range formats {
		out = append(out, f.name)
	}
	return out
}

// Write gives a plan in a format.
func Write(format string, p report.Plan, m Model) (string, error) {
	for _, f := range formats {
		if f.name == format {
			text, err := f.write(p, m)
			if err != nil {
				return "", fmt.Errorf("--write %s: %w", format, err)
			}
			return strings.TrimRight(text, "\n") + "\n", nil
		}
	}
	return "", fmt.Errorf("format %.30q is not known (there are: %s)", format, strings.Join(Formats(), ", "))
}

// summary is a plan in one line, for comments.
func summary(p report.Plan) string {
	parts := []string{fmt.Sprintf("micro-batch %d, %d accumulated", p.MicroBatch, p.Accumulate), string(p.Precision), string(p.Optimizer), "checkpointing " + string(p.Checkpointing)}
	switch {
	case cut(p):
		parts = append(parts, fmt.Sprintf("%d GPUs (tensor parallel %d, %d stages, %d data ranks%s)", p.GPUs, p.Tensor, p.Stages, p.Ranks, when(p.Ranks > 1, " with %s", p.Sharding)))
	case p.GPUs > 1:
		parts = append(parts, fmt.Sprintf("%d GPUs (%s)", p.GPUs, p.Sharding))
	}
	if p.Offload != "" {
		parts = append(parts, "on the host: "+string(p.Offload))
	}
	return strings.Join(parts, ", ") + fmt.Sprintf("; predicted peak %s", p.Peak.Device.Short())
}

// lines joins what is not empty; a block may bring several lines.
func lines(blocks ...string) string { return join("\n", blocks) }

// sections joins parts of a Python module, two empty lines between them.
func sections(blocks ...string) string { return join("\n\n\n", blocks) }

func join(between string, blocks []string) string {
	return strings.Join(slices.DeleteFunc(blocks, func(b string) bool { return b == "" }), between)
}

// when gives a text where a condition holds.
func when(condition bool, format string, args ...any) string {
	if !condition {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// indent moves lines one level to the right.
func indent(text string) string { return "    " + strings.ReplaceAll(text, "\n", "\n    ") }

// python spells a truth value.
func python(b bool) string {
	if b {
		return "True"
	}
	return "False"
}

// conf is the line that sets the allocator; it has to stand before torch is imported.
func conf(p report.Plan) string {
	return when(p.Conf != "", "import os\nos.environ.setdefault(\"PYTORCH_CUDA_ALLOC_CONF\", %q)", p.Conf)
}

// lowType is autocast's type in PyTorch's words, "" where it is off.
func lowType(p report.Plan) string {
	switch p.Precision {
	case "amp-bf16":
		return "torch.bfloat16"
	case "amp-fp16":
		return "torch.float16"
	}
	return ""
}

// paramType is the parameters' type in PyTorch's words, "" for fp32.
func paramType(p report.Plan) string {
	switch p.Precision {
	case "bf16":
		return "torch.bfloat16"
	case "fp16":
		return "torch.float16"
	}
	return ""
}

// written are optimizers that every form has words for, as a flag takes them.
var written = strings.Join([]string{string(torch.DefaultOptimizer), string(mustForm(torch.DefaultOptimizer, torch.Fused))}, ",")

func mustForm(o torch.Optimizer, f torch.Form) torch.Optimizer {
	with, _ := o.With(f)
	return with
}

// class is an optimizer's Python class with the arguments that make it this one.
func class(o torch.Optimizer) (name, arguments string, err error) {
	kind, ok := o.Algorithm()
	if !ok || kind.Spelled.Class == "" {
		return "", "", fmt.Errorf("no Python class is known for optimizer %s", o)
	}
	if kind.Partial {
		return "", "", fmt.Errorf("%s trains some parameters only, and which ones the others get is the script's choice; it is not written", o)
	}
	if kind.Spelled.Arguments != "" {
		arguments = ", " + kind.Spelled.Arguments
	}
	return kind.Spelled.Class, arguments, nil
}

// form is the argument that picks an implementation.
func form(o torch.Optimizer) string {
	switch o.Form() {
	case torch.Fused:
		return ", fused=True"
	case torch.Loop:
		return ", foreach=False"
	}
	return ""
}
