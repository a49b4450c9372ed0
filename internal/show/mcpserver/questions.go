package mcpserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
)

// The inputs of the tools. A value never becomes a flag: it is written --flag=value, and what stands alone is an absolute path or the name of a model.

type explainIn struct {
	Paths []string `json:"paths,omitempty" jsonschema:"memory snapshots (.pickle, .json, .html; also .gz, .zst, .xz), logs, or folders with one file for each rank"`
	Text  string   `json:"text,omitempty" jsonschema:"the error message or the end of a log, instead of paths"`
}

func explain() (in explainIn, out *explainOut) { return }

func (in explainIn) ask(r roots) (question, error) {
	switch {
	case len(in.Paths) == 0 && in.Text == "":
		return question{}, errors.New("give paths, or text with the error message")
	case len(in.Paths) > 0 && in.Text != "":
		return question{}, errors.New("give paths or text, not both")
	case len(in.Text) > maxText:
		return question{}, errors.New("the text is too long; give the end of it, or the path of the log")
	case in.Text != "":
		return question{args: []string{"explain", "--json", "-"}, stdin: []byte(in.Text)}, nil
	}
	paths, err := r.paths(in.Paths)
	if err != nil {
		return question{}, err
	}
	return question{args: append([]string{"explain", "--json"}, paths...)}, nil
}

type replayIn struct {
	Path     string   `json:"path" jsonschema:"a memory snapshot with a history"`
	Conf     []string `json:"conf,omitempty" jsonschema:"allocator settings to try, as in PYTORCH_CUDA_ALLOC_CONF; default: all sensible ones"`
	Capacity string   `json:"capacity,omitempty" jsonschema:"what PyTorch may hold, for example 24GiB; default: what the recorded run had"`
	Torch    string   `json:"torch,omitempty" jsonschema:"PyTorch version, for example 2.9"`
}

func replay() (in replayIn, out *replayOut) { return }

func (in replayIn) ask(r roots) (question, error) {
	paths, err := r.paths([]string{in.Path})
	if err != nil {
		return question{}, err
	}
	f := flags{"replay", "--json"}
	for _, c := range in.Conf {
		f.text("conf", c)
	}
	f.text("capacity", in.Capacity)
	f.text("torch", in.Torch)
	return question{args: append(f, paths...)}, nil
}

// jobIn is a training job.
type jobIn struct {
	Model      string         `json:"model,omitempty" jsonschema:"a Hugging Face model name whose config.json is in the local cache, for example Qwen/Qwen3-8B"`
	Config     string         `json:"config,omitempty" jsonschema:"path of a config.json, or of the folder it is in, instead of model"`
	ConfigJSON map[string]any `json:"config_json,omitempty" jsonschema:"the content of a config.json, instead of model"`
	Graph      string         `json:"graph,omitempty" jsonschema:"path of a graph from torch.export (.pt2), instead of model"`
	Task       string         `json:"task,omitempty" jsonschema:"causal-lm, masked-lm, seq-cls, token-cls, seq2seq-lm, image-cls, speech-seq2seq, image-text, ctc, audio-cls, video-cls, semantic-seg, question-answering, features, denoising, reconstruction; default: the model's"`
	Batch      int            `json:"batch,omitempty" jsonschema:"samples in one micro-batch"`
	Seq        int            `json:"seq,omitempty" jsonschema:"tokens in one sample"`
	Image      int            `json:"image,omitempty" jsonschema:"side of an image in pixels"`
	Accumulate int            `json:"accumulate,omitempty" jsonschema:"micro-batches of one optimizer step"`
	Precision  string         `json:"precision,omitempty" jsonschema:"fp32, tf32, amp-bf16, amp-fp16, bf16 or fp16 (the last two: parameters too)"`
	Optimizer  string         `json:"optimizer,omitempty" jsonschema:"for example adamw, adamw-fused, sgd, adafactor; default adamw"`
	LoRARank   int            `json:"lora_rank,omitempty" jsonschema:"train adapters of this rank instead of the model"`
	BaseBits   int            `json:"base_bits,omitempty" jsonschema:"4: the frozen model is quantized (QLoRA)"`
	Loss       string         `json:"loss,omitempty" jsonschema:"cross-entropy, for a graph that ends in logits"`
	GPU        string         `json:"gpu,omitempty" jsonschema:"the card, for example h100, a100-40g, rtx-4090, l4, t4"`
	Memory     string         `json:"memory,omitempty" jsonschema:"memory there is, for example 24GiB; default: the card's"`
	Torch      string         `json:"torch,omitempty" jsonschema:"PyTorch version"`
	GPUs       int            `json:"gpus,omitempty" jsonschema:"number of cards"`
}

// modelName is a name on the Hugging Face hub.
var modelName = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?$`)

// ask writes the job as flags of a verb. A configuration is copied, so that nothing is read beside the file that was named.
func (in jobIn) ask(verb string, r roots) (question, error) {
	given := 0
	for _, there := range []bool{in.Model != "", in.Config != "", in.ConfigJSON != nil, in.Graph != ""} {
		if there {
			given++
		}
	}
	if given != 1 {
		return question{}, errors.New("give one of model, config, config_json and graph")
	}
	f := flags{verb, "--json"}
	f.text("task", in.Task)
	f.number("batch", in.Batch)
	f.number("seq", in.Seq)
	f.number("image", in.Image)
	f.number("accumulate", in.Accumulate)
	f.text("precision", in.Precision)
	f.text("optimizer", in.Optimizer)
	f.number("lora-rank", in.LoRARank)
	f.number("base-bits", in.BaseBits)
	f.text("loss", in.Loss)
	f.text("gpu", in.GPU)
	f.text("memory", in.Memory)
	f.text("torch", in.Torch)
	f.number("gpus", in.GPUs)
	q := question{}
	switch {
	case in.Model != "":
		if !modelName.MatchString(in.Model) {
			return q, fmt.Errorf("model %q is not a name like Qwen/Qwen3-8B; for a file give config", in.Model)
		}
		f = append(f, in.Model)
	case in.Graph != "":
		paths, err := r.paths([]string{in.Graph})
		if err != nil {
			return q, err
		}
		f.text("graph", paths[0])
	default:
		config, err := in.configuration(r)
		if err != nil {
			return q, err
		}
		if q.config, err = json.Marshal(config); err != nil {
			return q, err
		}
		f.text("config", configFile)
	}
	q.args = f
	return q, nil
}

func (in jobIn) configuration(r roots) (any, error) {
	if in.ConfigJSON != nil {
		return in.ConfigJSON, nil
	}
	data, err := r.small(in.Config)
	if err != nil {
		return nil, err
	}
	if !json.Valid(data) {
		return nil, fmt.Errorf("%s is not JSON", in.Config)
	}
	return json.RawMessage(data), nil
}

type predictIn struct {
	jobIn
	Checkpointing bool   `json:"checkpointing,omitempty" jsonschema:"activation checkpointing of every layer"`
	Attn          string `json:"attn,omitempty" jsonschema:"sdpa, eager or flash_attention_2"`
	Sharding      string `json:"sharding,omitempty" jsonschema:"with gpus: ddp, fsdp2, zero1, zero2, zero3"`
}

func predict() (in predictIn, out *predictOut) { return }

func (in predictIn) ask(r roots) (question, error) {
	q, err := in.jobIn.ask("predict", r)
	f := flags(q.args)
	if in.Checkpointing {
		f.text("checkpointing", "true")
	}
	f.text("attn", in.Attn)
	f.text("sharding", in.Sharding)
	q.args = f
	return q, err
}

type fitIn struct {
	jobIn
	EffectiveBatch int  `json:"effective_batch,omitempty" jsonschema:"samples of one optimizer step over all cards; it stays the same in all plans"`
	AllowNumerics  bool `json:"allow_numerics,omitempty" jsonschema:"precision and the kind of optimizer may change"`
}

func fit() (in fitIn, out *fitOut) { return }

func (in fitIn) ask(r roots) (question, error) {
	q, err := in.jobIn.ask("fit", r)
	f := flags(q.args)
	f.number("effective-batch", in.EffectiveBatch)
	if in.AllowNumerics {
		f.text("allow", "numerics")
	}
	q.args = f
	return q, err
}

type lintIn struct {
	Paths  []string `json:"paths" jsonschema:"Python files, notebooks or folders"`
	Select []string `json:"select,omitempty" jsonschema:"apply only these rules, for example LM003; ALL for the quiet ones too"`
	Ignore []string `json:"ignore,omitempty" jsonschema:"skip these rules"`
	Tests  bool     `json:"tests,omitempty" jsonschema:"read test files in folders too"`
}

func lint() (in lintIn, out *lintOut) { return }

func (in lintIn) ask(r roots) (question, error) {
	if len(in.Paths) == 0 {
		return question{}, errors.New("give paths of Python files, notebooks or folders")
	}
	paths, err := r.paths(in.Paths)
	if err != nil {
		return question{}, err
	}
	f := flags{"lint", "--json", "--no-cache"}
	for _, folder := range r.folders() {
		f.text("within", folder)
	}
	for _, rule := range in.Select {
		f.text("select", rule)
	}
	for _, rule := range in.Ignore {
		f.text("ignore", rule)
	}
	if in.Tests {
		f.text("tests", "true")
	}
	return question{args: append(f, paths...)}, nil
}

type doctorIn struct{}

func doctor() (in doctorIn, out *doctorOut) { return }

func (doctorIn) ask(roots) (question, error) {
	return question{args: []string{"doctor", "--json"}, whole: true}, nil
}

// flags is a command line in the making.
type flags []string

func (f *flags) text(name, value string) {
	if value != "" {
		*f = append(*f, "--"+name+"="+value)
	}
}

func (f *flags) number(name string, n int) {
	if n != 0 {
		*f = append(*f, "--"+name+"="+strconv.Itoa(n))
	}
}
