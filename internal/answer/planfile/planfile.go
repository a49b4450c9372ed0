// Package planfile writes a plan in the form a training framework reads, and reads it back.
//
// It takes a plan and what is known of the model and returns text: a plain PyTorch module, TrainingArguments, an Accelerate configuration, a DeepSpeed JSON, an
// FSDP2 module, Lightning's Trainer arguments, TRL's SFTConfig, Axolotl's, LLaMA-Factory's, torchtune's and torchtitan's configuration, a torchrun command. The texts are templates in forms/. What is written
// is the description the memory was predicted from (setup.Lowered): Read gives it back, and tests hold each form to the real library. Refused, with the reason
// and what to do instead: formats that are not known, and plans a framework has no words for; Can tells so before a search.
package planfile

import (
	"embed"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/setup"
)

// Model is what the forms need to know beside the plan.
type Model struct {
	Hub    bool   // a model of transformers
	Family string // its model_type
	Title  string // the job in a few words
	Seq    int    // tokens of one sample, where it has some
	Task   string // what it is trained for

	Sizes Sizes // of a Llama

	Modules []string // of a model that is not transformers': paths of what may be checkpointed, in the order of their calls
}

// Refusal says why a framework has no words for a plan, and what to do instead.
type Refusal struct {
	Format, Why, Instead string
}

func (r *Refusal) Error() string {
	text := "--write " + r.Format + ": " + r.Why
	if r.Instead != "" {
		text += "; " + r.Instead
	}
	return text
}

// format is one form: its template (none: it is written otherwise), what it has words for, and how it is read.
type format struct {
	name     string
	template string
	can      func(v view) *Refusal
	write    func(v view) (string, error)
	read     func(text string) (setup.Setup, error)
	// silent takes what the file leaves to the script out of a setup.
	silent func(*setup.Setup)
	// loop is what its training loop keeps; "" where the loop is the user's. zeroGrad is when it lets gradients go, "" before forward.
	loop     setup.Loop
	zeroGrad string
	code     setup.Code // whose modelling code it trains, where it has its own
	mask     string     // the attention_mask its batches have, "" where the job says it
	prepared bool       // Accelerate prepares its model: under autocast, outputs are copied to fp32
	uncached bool       // its autocast keeps no casts of parameters
}

// formats by name.
func formats() []format {
	return []format{
		{name: "torch", template: "torch.py.tmpl", can: canTorch, write: writeTorch, read: readPython, silent: silentPython, loop: setup.LossOnly},
		{name: "trainer", template: "trainer.py.tmpl", can: canTrainer, read: readTrainer, silent: silentPython, loop: setup.LossOnly, prepared: true},
		{name: "accelerate", template: "accelerate.yaml.tmpl", can: canAccelerate, read: readAccelerate, silent: silentAccelerate, prepared: true},
		{name: "deepspeed", can: canDeepSpeed, write: writeDeepSpeed, read: readDeepSpeed, silent: silentDeepSpeed},
		{name: "fsdp2", template: "fsdp2.py.tmpl", can: canFSDP2, write: writeFSDP2, read: readPython, silent: silentFSDP2, loop: setup.LossOnly},
		{name: "lightning", template: "lightning.py.tmpl", can: canLightning, read: readLightning, silent: silentFSDP2, loop: setup.LossOnly, zeroGrad: "before-backward", uncached: true},
		{name: "axolotl", template: "axolotl.yaml.tmpl", can: canAxolotl, read: readAxolotl, silent: silentPython, loop: setup.LossOnly, prepared: true},
		{name: "llamafactory", template: "llamafactory.yaml.tmpl", can: canLlamaFactory, read: readLlamaFactory, silent: silentPython, loop: setup.LossOnly, prepared: true},
		{name: "trl", template: "trl.py.tmpl", can: canTRL, read: readTRL, silent: silentPython, loop: setup.LossOnly, code: setup.TRL, mask: job.MaskFull, prepared: true},
		{name: "torchtune", template: "torchtune.yaml.tmpl", can: canTorchtune, read: readTorchtune, silent: silentTorchtune, loop: setup.LossOnly, code: setup.Torchtune},
		{name: "torchtitan", template: "torchtitan.toml.tmpl", can: canTorchtitan, read: readTorchtitan, silent: silentFSDP2, loop: setup.LossOnly, code: setup.Torchtitan},
		{name: "torchrun", template: "torchrun.sh.tmpl", can: func(view) *Refusal { return nil }},
	}
}

// Loop is what the training loop of a format keeps of a step, and when it lets gradients go; "" where the loop is the user's. Trainer's compute_loss returns the
// loss alone, and so do Lightning's training_step, torchtitan's loop and the loss function of the modules written here: what the model gave back beside it
// is freed before backward. Lightning calls zero_grad between forward and backward. Measured on an H200 with 16 written plans: allocated bytes within 1 MiB.
// https://github.com/huggingface/transformers/blob/v5.0.0/src/transformers/trainer.py (training_step)
// https://github.com/Lightning-AI/pytorch-lightning/blob/2.6.0/src/lightning/pytorch/loops/optimization/automatic.py (Closure.closure)
func Loop(name string) (loop setup.Loop, zeroGrad string) {
	f, _ := find(name)
	return f.loop, f.zeroGrad
}

// Code is whose modelling code a format trains: memory is predicted with it. "" is transformers', or the user's.
func Code(name string) setup.Code {
	f, _ := find(name)
	return f.code
}

// FromHost tells that a format begins with a model that from_pretrained made on the host and that is then moved to the card. fully_shard moves it layer by layer,
// and frameworks with models of their own make them on the card.
func FromHost(name string) bool {
	f, _ := find(name)
	return name != "fsdp2" && (f.code == "" || f.code == setup.TRL)
}

// FloatOutputs tells that a format's outputs are copied to fp32 under autocast: Accelerate prepares its model, and the Trainer is built on it.
func FloatOutputs(name string) bool {
	f, _ := find(name)
	return f.prepared
}

// UncachedCasts tells that a format's autocast keeps no casts of parameters: Lightning's has cache_enabled=False. On an H200, where a step's highest moment is its forward pass, this was 7 %.
// https://github.com/Lightning-AI/pytorch-lightning/blob/2.6.0/src/lightning/pytorch/plugins/precision/amp.py (autocast_context_manager)
func UncachedCasts(name string) bool {
	f, _ := find(name)
	return f.uncached
}

// Mask is the attention_mask that the batches of a format have; "" where the job says it.
func Mask(name string) string {
	f, _ := find(name)
	return f.mask
}

// unwritten are frameworks that people ask for, and why their memory is not predicted: a plan for them would be a guess.
var unwritten = map[string]string{
	// https://github.com/unslothai/unsloth/blob/2026.10.9/unsloth/models/llama.py
	"unsloth": "Unsloth replaces layers, loss and checkpointing by kernels of its own, whose memory is not predicted; --write trl gives the same training in TRL, which needs more",
}

// Unwritten says why a framework that is known has no form here; "" where the name is not known at all.
func Unwritten(name string) string { return unwritten[name] }

// Formats lists the names.
func Formats() []string {
	var out []string
	for _, f := range formats() {
		out = append(out, f.name)
	}
	return out
}

func find(name string) (format, error) {
	for _, f := range formats() {
		if f.name == name {
			return f, nil
		}
	}
	return format{}, fmt.Errorf("format %.30q is not known (there are: %s)", name, strings.Join(Formats(), ", "))
}

// Can tells why a format has no words for a way to run a model; nil where it has.
func Can(name string, s setup.Setup, m Model) error {
	f, err := find(name)
	if err != nil {
		return err
	}
	v, err := newView(report.Plan{Setup: s}, m)
	if err != nil {
		return &Refusal{Format: name, Why: err.Error()}
	}
	if r := f.can(v); r != nil {
		r.Format = name
		return r
	}
	return nil
}

// Write gives a plan in a format.
func Write(name string, p report.Plan, m Model) (string, error) {
	if err := Can(name, p.Setup, m); err != nil {
		return "", err
	}
	f, _ := find(name)
	v, err := newView(p, m)
	if err != nil {
		return "", err
	}
	write := f.write
	if write == nil {
		write = func(v view) (string, error) { return render(f.template, v) }
	}
	text, err := write(v)
	return strings.TrimRight(text, "\n") + "\n", err
}

// Read gives the way to run a model that a written file says. What the file leaves to the script is zero.
func Read(name, text string) (setup.Setup, error) {
	f, err := find(name)
	if err != nil {
		return setup.Setup{}, err
	}
	if f.read == nil {
		return setup.Setup{}, fmt.Errorf("a %s command says how many processes there are, not what they do", name)
	}
	return f.read(text)
}

//go:embed forms
var files embed.FS

// python spells a truth value.
func python(b bool) string {
	if b {
		return "True"
	}
	return "False"
}

// deepSpeed is the JSON DeepSpeed reads (deepspeed/runtime/config.py). What the Trainer or Accelerate owns is "auto".
type deepSpeed struct {
	TrainBatch int             `json:"train_batch_size,omitempty"`
	Micro      int             `json:"train_micro_batch_size_per_gpu"`
	Accumulate int             `json:"gradient_accumulation_steps"`
	BF16       *enabled        `json:"bf16,omitempty"`
	FP16       *enabled        `json:"fp16,omitempty"`
	Zero       zero            `json:"zero_optimization"`
	Optimizer  *deepSpeedOptim `json:"optimizer,omitempty"`
	Autocast   *autocast       `json:"torch_autocast,omitempty"`
}

type enabled struct {
	Enabled bool `json:"enabled"`
}

type autocast struct {
	Enabled bool   `json:"enabled"`
	DType   string `json:"dtype"`
}

type zero struct {
	Stage   int      `json:"stage"`
	Offload *offload `json:"offload_optimizer,omitempty"`
}

type offload struct {
	Device string `json:"device"`
	Pin    bool   `json:"pin_memory"`
}

type deepSpeedOptim struct {
	Type   string            `json:"type"`
	Params map[string]string `json:"params"`
}

// settings are a plan in DeepSpeed's words.
func (v view) settings() deepSpeed {
	d := deepSpeed{TrainBatch: v.GlobalBatch(), Micro: v.MicroBatch, Accumulate: v.Accumulate, Zero: zero{Stage: v.Stage()}}
	if v.HostOptimizer() {
		d.Zero.Offload = &offload{Device: "cpu", Pin: true}
	}
	cast, params := v.Precision.Autocast(), v.Precision.Params()
	switch {
	case cast != "":
		d.Autocast = &autocast{true, cast.Name()}
	case params == "bf16":
		d.BF16 = &enabled{true}
	case params == "fp16":
		d.FP16 = &enabled{true}
	}
	d.Optimizer = &deepSpeedOptim{Type: v.Kind.Spelled.DeepSpeed, Params: map[string]string{"lr": "auto", "weight_decay": "auto"}}
	return d
}

func writeDeepSpeed(v view) (string, error) {
	b, err := json.MarshalIndent(v.settings(), "", "  ")
	if err != nil {
		return "", fmt.Errorf("write the JSON: %w", err)
	}
	return string(b), nil
}

// writeTorch is a module of plain PyTorch; one of several cards is written by package's own cutter.
func writeTorch(v view) (string, error) {
	if cut(v.Plan) || v.Sharding == setup.DDP {
		return writeCut(v.Plan, v.Model)
	}
	return render("torch.py.tmpl", v)
}

func writeFSDP2(v view) (string, error) {
	if cut(v.Plan) {
		return writeCut(v.Plan, v.Model)
	}
	return render("fsdp2.py.tmpl", v)
}
