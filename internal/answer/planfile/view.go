package planfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/torch"
)

// view is a plan as templates see it.
type view struct {
	report.Plan
	Model Model
	Low   setup.Lowered
	Kind  torch.Algorithm
}

func newView(p report.Plan, m Model) (view, error) {
	p.GPUs = max(p.GPUs, 1)
	low, err := p.Setup.Lower()
	if err != nil {
		return view{}, err
	}
	kind, ok := p.Optimizer.Algorithm()
	if !ok {
		_, err := torch.ParseOptimizer(string(p.Optimizer))
		return view{}, err
	}
	return view{p, m, low, kind}, nil
}

// Summary is the plan in one line.
func (v view) Summary() string { return summary(v.Plan) }

func summary(p report.Plan) string {
	parts := []string{fmt.Sprintf("micro-batch %d, %d accumulated", p.MicroBatch, p.Accumulate), string(p.Precision), string(p.Optimizer), "checkpointing " + string(p.Checkpointing)}
	if p.LoRARank > 0 {
		parts = append(parts, fmt.Sprintf("%s rank %d", p.Method(), p.LoRARank))
	}
	switch {
	case cut(p):
		parts = append(parts, fmt.Sprintf("%d GPUs (tensor parallel %d, %d stages, %d data ranks%s)", p.GPUs, p.Tensor, p.Stages, p.Ranks, when(p.Ranks > 1, " with %s", p.Sharding)))
	case p.GPUs > 1:
		parts = append(parts, fmt.Sprintf("%d GPUs (%s%s)", p.GPUs, p.Sharding, when(p.Context > 1, ", context parallel %d", p.Context)))
	}
	if p.Offload != "" {
		parts = append(parts, "on the host: "+string(p.Offload))
	}
	return strings.Join(parts, ", ") + fmt.Sprintf("; predicted peak %s", p.Peak.Device.Short())
}

// Hub, Seq and Modules are the model's.
func (v view) Hub() bool { return v.Model.Hub }

// Seq is the tokens of one sample.
func (v view) Seq() int { return v.Model.Seq }

// Modules are the quoted names of those that are checkpointed, of a model that is not transformers'.
func (v view) Modules() string {
	var quoted []string
	for i, n := range v.Model.Modules {
		chosen := i < v.Layers
		if v.Calls != nil {
			chosen = slices.Contains(v.Calls, i)
		}
		if v.Checkpointing == setup.Full || chosen {
			quoted = append(quoted, strconv.Quote(n))
		}
	}
	return strings.Join(quoted, ", ")
}

// Chosen are the layers a selective plan computes again.
func (v view) Chosen() string {
	return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(v.Calls)), ", "), "[]")
}

// Keeps is what the user's own loop keeps of an iteration, as it was predicted.
func (v view) Keeps() string {
	return map[setup.Loop]string{
		setup.Function: "the model's outputs until backward has run: outputs = model(**batch); accelerator.backward(outputs.loss), in a function",
		setup.LossOnly: "only the loss: accelerator.backward(model(**batch).loss)",
		setup.Plain:    "the outputs, the loss and the batch of the last iteration while the next one runs",
		setup.Script:   "the outputs and the loss of the last iteration while the next one runs",
		setup.Kept:     "what the last step returned until the next one has returned",
	}[v.Loop]
}

// Scaler tells that gradients are scaled.
func (v view) Scaler() bool { return v.Precision.Autocast() == torch.FP16 }

// CastName is autocast's type in PyTorch's words; "" where it is off, and where the engine's policy casts.
func (v view) CastName() string { return v.Low.Compute.Precision.Autocast().Name() }

// ParamName is the type the parameters are loaded in.
func (v view) ParamName() string { return v.Precision.Params().Name() }

// ComputeName is the type products run in.
func (v view) ComputeName() string {
	if c := v.Precision.Autocast(); c != "" {
		return c.Name()
	}
	return v.ParamName()
}

// PolicyArgument is fully_shard's policy.
func (v view) PolicyArgument() string {
	return when(v.Low.Policy != "", ", mp_policy=MixedPrecisionPolicy(param_dtype=torch.%s, reduce_dtype=torch.float32)", v.Low.Policy.Name())
}

// Shards is how many cards share one copy of the model.
func (v view) Shards() int { return v.Sharding.Shards(v.GPUs) }

// ShardDegree is torchtitan's data_parallel_shard_degree: cards that divide a sample are counted apart.
func (v view) ShardDegree() int { return v.Shards() / max(1, v.Context) }

// HostOptimizer and HostActivations tell what is on the host.
func (v view) HostOptimizer() bool { return v.Offload.Has(setup.OffloadOptimizer) }

// HostActivations tells whether what autograd saves is on the host.
func (v view) HostActivations() bool { return v.Offload.Has(setup.OffloadActivations) }

// Stage is DeepSpeed's.
func (v view) Stage() int {
	switch v.Sharding {
	case setup.ZeRO1:
		return 1
	case setup.ZeRO2:
		return 2
	case setup.ZeRO3:
		return 3
	}
	return 0
}

// Class, Arguments and Form are how the optimizer is made.
func (v view) Class() string { return v.Kind.Spelled.Class }

// LastClass is the class without its module.
func (v view) LastClass() string { return v.Class()[strings.LastIndex(v.Class(), ".")+1:] }

// Arguments make the class this optimizer.
func (v view) Arguments() string {
	return when(v.Kind.Spelled.Arguments != "", ", %s", v.Kind.Spelled.Arguments)
}

// Form picks the implementation.
func (v view) Form() string { return formArgument(v.Optimizer) }

// Implementation is torchtitan's word for it.
func (v view) Implementation() string {
	return map[torch.Form]string{torch.Default: "foreach", torch.Fused: "fused", torch.Loop: "for-loop"}[v.Optimizer.Form()]
}

func formArgument(o torch.Optimizer) string {
	switch o.Form() {
	case torch.Fused:
		return ", fused=True"
	case torch.Loop:
		return ", foreach=False"
	}
	return ""
}

// Import is the library of an optimizer that is not torch's.
func (v view) Import() string {
	if l := v.Kind.Library(); l != "torch" {
		return l
	}
	return ""
}

// TrainerOptimizer and TrainerArguments are the words of TrainingArguments.
func (v view) TrainerOptimizer() string { return v.Kind.Spelled.Trainer[v.Optimizer.Form()] }

// TrainerArguments are optim_args.
func (v view) TrainerArguments() string { return v.Kind.Spelled.Arguments }

// TrainerBF16 is the Trainer's bf16: autocast, the policy of fully_shard, and DeepSpeed's engine.
func (v view) TrainerBF16() bool {
	return v.Precision.Autocast() == torch.BF16 || v.Stage() > 0 && v.Precision.Params() == torch.BF16
}

// TrainerFP16 is the same for fp16.
func (v view) TrainerFP16() bool {
	return v.Precision.Autocast() == torch.FP16 || v.Stage() > 0 && v.Precision.Params() == torch.FP16
}

// DeepSpeedJSON is DeepSpeed's configuration inside of TrainingArguments.
func (v view) DeepSpeedJSON() string {
	var b bytes.Buffer
	d := v.settings()
	d.TrainBatch = 0 // the Trainer multiplies
	e := json.NewEncoder(&b)
	_ = e.Encode(d) // plain fields
	return strings.NewReplacer("true", "True", "false", "False").Replace(strings.TrimSpace(b.String()))
}

// AccelerateKind and AccelerateMixed are words of Accelerate.
func (v view) AccelerateKind() string {
	switch {
	case v.Stage() > 0:
		return "DEEPSPEED"
	case v.Sharding == setup.FSDP2:
		return "FSDP"
	case v.Sharding == setup.DDP:
		return "MULTI_GPU"
	}
	return "'NO'"
}

// AccelerateMixed is mixed_precision.
func (v view) AccelerateMixed() string {
	switch {
	case v.TrainerBF16():
		return string(torch.BF16)
	case v.TrainerFP16():
		return string(torch.FP16)
	}
	return "'no'"
}

// LightningPrecision is Lightning's word.
func (v view) LightningPrecision() string { return lightningWords[v.Precision] }

var lightningWords = map[torch.Precision]string{
	torch.PlainFP32: "32-true", torch.TF32: "32-true", torch.AmpBF16: "bf16-mixed", torch.AmpFP16: "16-mixed", torch.PureBF16: "bf16-true", torch.PureFP16: "16-true",
}

// GlobalBatch is the effective batch.
func (v view) GlobalBatch() int { return v.MicroBatch * v.Accumulate * v.Groups() }

// Targets are the layers with adapters, as a list of Python or YAML.
func (v view) Targets() string {
	if v.LoRATargets == allLinear {
		return strconv.Quote(allLinear)
	}
	return `["` + strings.ReplaceAll(v.LoRATargets, ",", `", "`) + `"]`
}

// allLinear is PEFT's word for every linear layer but the head.
const allLinear = "all-linear"

// ModelClass is the Auto class of a task.
func (v view) ModelClass() string { return ModelClass(v.Model.Task) }

// ModelClass is the Auto class of transformers for a task.
func ModelClass(task string) string {
	if c := autoClasses[task]; c != "" {
		return c
	}
	return "AutoModelForCausalLM"
}

var autoClasses = map[string]string{
	"masked-lm": "AutoModelForMaskedLM", "seq-cls": "AutoModelForSequenceClassification", "token-cls": "AutoModelForTokenClassification",
	"seq2seq-lm": "AutoModelForSeq2SeqLM", "image-cls": "AutoModelForImageClassification", "speech-seq2seq": "AutoModelForSpeechSeq2Seq",
}

// when gives a text where a condition holds.
func when(condition bool, format string, args ...any) string {
	if !condition {
		return ""
	}
	return fmt.Sprintf(format, args...)
}
