package fitrun

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/torch"
)

// Change is what makes a script run as a plan says: the command with the script's own options, and what its code has no option for.
type Change struct {
	Command string   // as typed into a shell; "" where nothing of the change is an option or a variable
	Code    []string // lines or sentences, each one change
}

// Names that scripts give to other settings.
var (
	checkpointNames = []string{"gradient_checkpointing", "gradient-checkpointing", "grad_checkpointing", "grad-checkpointing"}
	attentionNames  = []string{"attn_implementation", "attn-implementation"}
)

// changing puts a change together.
type changing struct {
	args, env []string
	source    string
	code      []string
	options   bool
}

// ChangeOf says how the command of a script gets from one way of running to another.
func ChangeOf(args []string, from, to setup.Setup, hub bool) Change {
	c := &changing{args: slices.Clone(args), source: sourceOf(args)}
	c.batch(from, to)
	c.checkpointing(from, to, hub)
	c.precision(from, to)
	c.optimizer(from, to)
	if from.Attn != to.Attn && to.Attn != "" {
		c.option(attentionNames, string(to.Attn), fmt.Sprintf("from_pretrained(..., attn_implementation=%q)", to.Attn))
	}
	if to.Conf != from.Conf && to.Conf != "" {
		c.env = append(c.env, "PYTORCH_CUDA_ALLOC_CONF="+to.Conf)
	}
	if to.Loop != from.Loop && to.Loop == setup.Function {
		c.code = append(c.code, "put the training step into a function: what it computed is then gone before the next batch")
	}
	if to.Offload != from.Offload && to.Offload != "" {
		c.code = append(c.code, fmt.Sprintf("keep %s on the host: plimsoll fit --write torch prints how", to.Offload))
	}
	out := Change{Code: c.code}
	if c.options || len(c.env) > 0 {
		out.Command = strings.Join(append(c.env, quoted(c.args)...), " ")
	}
	return out
}

// option sets an option of the script, or says what to change in its code.
func (c *changing) option(names []string, value, code string) {
	name := optionOf(names, c.args, c.source)
	if name == "" {
		c.code = append(c.code, code)
		return
	}
	c.set(name, value)
}

// set gives an option of the command another value, where it stands or at the end.
func (c *changing) set(name, value string) {
	c.options = true
	for i, a := range c.args {
		switch {
		case strings.HasPrefix(a, "--"+name+"="):
			c.args[i] = "--" + name + "=" + value
			return
		case a == "--"+name && i+1 < len(c.args) && !strings.HasPrefix(c.args[i+1], "--"):
			c.args[i+1] = value
			return
		case a == "--"+name:
			return
		}
	}
	if value == "True" && (strings.Contains(c.source, "HfArgumentParser") || regexp.MustCompile(`--`+regexp.QuoteMeta(name)+`["'][^)]*store_true`).MatchString(c.source)) {
		c.args = append(c.args, "--"+name)
		return
	}
	c.args = append(c.args, "--"+name+"="+value)
}

func (c *changing) batch(from, to setup.Setup) {
	if from.MicroBatch == to.MicroBatch && from.Accumulate == to.Accumulate {
		return
	}
	batch, accumulate := optionOf(batchNames, c.args, c.source), optionOf(accumulateNames, c.args, c.source)
	if batch != "" && (accumulate != "" || to.Accumulate == 1) {
		c.set(batch, fmt.Sprint(to.MicroBatch))
		if accumulate != "" {
			c.set(accumulate, fmt.Sprint(to.Accumulate))
		}
		return
	}
	if batch != "" {
		c.set(batch, fmt.Sprint(to.MicroBatch))
	} else {
		c.code = append(c.code, fmt.Sprintf("DataLoader(..., batch_size=%d)", to.MicroBatch))
	}
	if to.Accumulate > 1 {
		c.code = append(c.code, fmt.Sprintf("(loss / %d).backward(), and optimizer.step() and zero_grad() after every %d batches", to.Accumulate, to.Accumulate))
	}
}

func (c *changing) checkpointing(from, to setup.Setup, hub bool) {
	if from.Checkpointing == to.Checkpointing && from.Layers == to.Layers {
		return
	}
	switch {
	case to.Checkpointing == setup.Full && hub:
		c.option(checkpointNames, "True", "model.gradient_checkpointing_enable()")
	case to.Checkpointing == setup.None && hub:
		c.option(checkpointNames, "False", "no model.gradient_checkpointing_enable()")
	default:
		c.code = append(c.code, fmt.Sprintf("checkpointing %s: plimsoll fit --write torch prints how", to.Checkpointing))
	}
}

func (c *changing) precision(from, to setup.Setup) {
	if from.Precision.SameMemory() == to.Precision.SameMemory() && from.Precision.TF32() == to.Precision.TF32() {
		return
	}
	cast := to.Precision.Autocast()
	switch {
	case cast != "" && to.Precision.Params() == from.Precision.Params():
		c.option([]string{string(cast)}, "True", fmt.Sprintf("with torch.autocast(\"cuda\", dtype=torch.%s): around forward and loss", cast.Name()))
	case to.Precision.TF32():
		c.option([]string{"tf32"}, "True", "torch.backends.cuda.matmul.allow_tf32 = True")
	default:
		c.code = append(c.code, fmt.Sprintf("precision %s: plimsoll fit --write torch prints how", to.Precision))
	}
}

func (c *changing) optimizer(from, to setup.Setup) {
	if from.Optimizer == to.Optimizer || to.Optimizer == "" {
		return
	}
	kind, ok := to.Optimizer.Algorithm()
	if !ok {
		return
	}
	form := map[torch.Form]string{torch.Fused: ", fused=True", torch.Loop: ", foreach=False"}[to.Optimizer.Form()]
	code := fmt.Sprintf("%s(parameters, ...%s)", kind.Spelled.Class, form)
	word := kind.Spelled.Trainer[to.Optimizer.Form()]
	if word == "" || !strings.Contains(c.source, "TrainingArguments") {
		c.code = append(c.code, code)
		return
	}
	if strings.Contains(c.source, "HfArgumentParser") {
		c.set("optim", word)
		return
	}
	c.code = append(c.code, fmt.Sprintf("TrainingArguments(..., optim=%q)", word))
}

// quoted are arguments as a shell takes them.
func quoted(args []string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = a
		if a == "" || strings.ContainsAny(a, " \t\n'\"\\$&|;<>()*?[]{}~#!`") {
			out[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return out
}
