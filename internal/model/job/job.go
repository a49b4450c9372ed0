// Package job is the description of a training job: model, batch, precision, optimizer and how the loop runs.
//
// It takes JSON (one object, or one a line), or a Job filled from flags and returns a checked Job with its defaults filled in.
// Refused, each with what to do: unknown words (with the nearest known one), sizes that are negative or beyond any machine, missing
// ones, and settings that contradict each other. The package opens no files: names inside a job stay as written, for the caller to
// resolve against the file that holds them.
package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/spelling"
	"github.com/plimsoll/plimsoll/internal/torch"
)

// Job describes one training job. The zero value of every optional field means "not said"; Check fills the defaults.
type Job struct {
	ID    string `json:"id,omitempty"`
	Model string `json:"model,omitempty"`

	Source     string          `json:"source,omitempty"`      // hf | graph
	Config     json.RawMessage `json:"config,omitempty"`      // hf: content of a config.json
	ConfigFile string          `json:"config_file,omitempty"` // hf: its file
	Graph      string          `json:"graph,omitempty"`       // graph: a .pt2, or model.json, plain or .gz

	Code setup.Code `json:"code,omitempty"` // hf: whose modelling code runs, where it is not transformers'
	// Context is how many cards divide the tokens of a sample (context parallelism): the job is what one of them does. 0 and 1: none.
	Context int `json:"context_parallel,omitempty"`

	// Load is how the model gets onto the card: card | host | device_map. Empty: see Loaded.
	Load setup.Load `json:"load,omitempty"`
	// FloatOutputs: what the model gives back under autocast is copied to fp32, as a model that Accelerate prepared does it.
	FloatOutputs bool `json:"float_outputs,omitempty"`
	// UncachedCasts: autocast keeps no casts of parameters (cache_enabled=False), as Lightning's mixed precision does it.
	UncachedCasts bool `json:"uncached_casts,omitempty"`

	Task       string `json:"task,omitempty"`        // hf: what the model is trained for
	Loss       string `json:"loss,omitempty"`        // graph that ends in logits: cross-entropy
	LossKernel string `json:"loss_kernel,omitempty"` // hf causal-lm: liger | chunked, instead of logits of the whole batch
	LossOutput string `json:"loss_output,omitempty"` // graph: the output the loss is computed from
	Classes    int    `json:"classes,omitempty"`     // graph: the number of classes of the labels

	Batch     int   `json:"batch,omitempty"` // samples in one micro-batch
	Seq       int   `json:"seq,omitempty"`   // tokens of one sample
	TargetSeq int   `json:"target_seq,omitempty"`
	Image     int   `json:"image,omitempty"`  // pixels of a side
	Frames    int   `json:"frames,omitempty"` // video frames, or spectrogram frames
	Input     []int `json:"input,omitempty"`  // shape of one sample

	ParamDType    torch.DType     `json:"param_dtype,omitempty"` // fp32 | bf16 | fp16
	Autocast      torch.DType     `json:"autocast,omitempty"`    // bf16 | fp16; fp16 implies a GradScaler
	TF32          bool            `json:"tf32,omitempty"`        // fp32 matrix products on tensor cores
	Optimizer     torch.Optimizer `json:"optimizer,omitempty"`
	Checkpointing bool            `json:"checkpointing,omitempty"` // every layer, non-reentrant
	// Layers limits checkpointing to so many of the first layers; 0: all of them.
	Layers int `json:"checkpoint_layers,omitempty"`
	// Order says which layers Layers counts: calls, from 0, those to checkpoint first in front; nil: as they run.
	Order []int `json:"-"`
	// CheckpointModules are the modules of a graph whose calls are checkpointed, by their paths in it.
	CheckpointModules []string `json:"checkpoint_modules,omitempty"`
	// OffloadActivations keeps what autograd saves on the host: forward runs under torch.autograd.graph.save_on_cpu(pin_memory=True).
	OffloadActivations bool `json:"offload_activations,omitempty"`
	// ResidentBytes lie on the card all the time beside the model: weights that are not trained here, data, batches fetched ahead.
	ResidentBytes int64           `json:"resident_bytes,omitempty"`
	Attn          setup.Attention `json:"attn,omitempty"`                  // sdpa | eager | flash_attention_2
	UseCache      bool            `json:"use_cache,omitempty"`             // the model returns its keys and values, which live until the next forward
	Accumulate    int             `json:"accumulate,omitempty"`            // micro-batches of one optimizer step
	InBackward    bool            `json:"optimizer_in_backward,omitempty"` // each parameter is updated, and its gradient freed, during backward
	Loop          setup.Loop      `json:"loop,omitempty"`                  // function | loss | plain | script
	ZeroGrad      string          `json:"zero_grad,omitempty"`             // before-forward | before-backward: then forward runs beside the gradients of the step before
	Freeze        []string        `json:"freeze,omitempty"`                // prefixes of parameter names
	// AttentionMask is what a text model is called with: padded (some samples are shorter than the batch), full (all ones), or nothing.
	AttentionMask string `json:"attention_mask,omitempty"`
	ChannelsLast  bool   `json:"channels_last,omitempty"`
	// Routing is how a mixture of experts spreads tokens: balanced, or worst (all to the same experts). Empty: balanced, with the worst case as a range.
	Routing string `json:"routing,omitempty"`

	LoRARank    int      `json:"lora_rank,omitempty"`    // low-rank adapters instead of full training
	LoRATargets []string `json:"lora_targets,omitempty"` // last names of linear layers; default q_proj, v_proj
	LoRADropout float64  `json:"lora_dropout,omitempty"`
	DoRA        bool     `json:"dora,omitempty"`      // adapters of DoRA: magnitudes are trained beside them
	BaseBits    int      `json:"base_bits,omitempty"` // 4 or 8: the frozen base is quantized (QLoRA)

	// Optimizers is how many optimizers step in an iteration, each with passes of its own; 0 and 1: one. The job is the largest of these steps.
	Optimizers int `json:"optimizers,omitempty"`
	// Compiled says that the step runs under torch.compile, which keeps other tensors than these operators do.
	Compiled bool `json:"compiled,omitempty"`

	// Benchmark is torch.backends.cudnn.benchmark = True: convolutions try out plans in the first step.
	Benchmark bool `json:"cudnn_benchmark,omitempty"`

	// Notes are what whoever described the job wants said beside the numbers.
	Notes []string `json:"notes,omitempty"`

	Ignored []string `json:"-"` // members of the JSON that mean nothing here
}

// Known words.
var (
	sources  = []string{"hf", "graph"}
	tasks    = []string{"causal-lm", "masked-lm", "seq-cls", "token-cls", "seq2seq-lm", "image-cls", "speech-seq2seq", "image-text", "ctc", "audio-cls", "video-cls", "semantic-seg", "question-answering", "features", "denoising", "reconstruction"}
	losses   = []string{"cross-entropy"}
	kernels  = []string{"liger", "chunked"}
	casts    = []string{string(torch.BF16), string(torch.FP16)}
	zeroings = []string{"before-forward", "before-backward"}
	masks    = []string{MaskFull, MaskPadded, MaskPacked}
	routings = []string{"balanced", RoutingWorst}
)

// Words of AttentionMask.
const (
	MaskFull   = "full"
	MaskPadded = "padded"
	MaskPacked = "packed" // several samples in a row: each attends to itself, which takes a mask like that of padding
)

// RoutingWorst sends every token to the same experts.
const RoutingWorst = "worst"

// Tasks lists the words for tasks.
func Tasks() []string { return slices.Clone(tasks) }

// Bounds of a believable job.
const (
	maxBatch  = 1 << 20
	maxSeq    = 1 << 24
	maxImage  = 1 << 14
	maxFrames = 1 << 20
	maxInput  = 1 << 40 // elements of one sample
)

// ErrNoModel says that a job names no model.
var ErrNoModel = errors.New("no model: give model (a name on the Hugging Face hub), config_file (a config.json) or graph (a file of torch.export)")

// Check fills the defaults and refuses what no training script could mean.
func (j *Job) Check() error {
	for _, check := range []func() error{j.checkSource, j.checkWords, j.checkSizes, j.checkContradictions} {
		if err := check(); err != nil {
			if j.ID != "" {
				return fmt.Errorf("job %q: %w", j.ID, err)
			}
			return err
		}
	}
	return nil
}

func (j *Job) checkSource() error {
	hasConfig := len(j.Config) > 0 || j.ConfigFile != ""
	if j.Source == "" {
		switch {
		case j.Graph != "":
			j.Source = "graph"
		case hasConfig || j.Model != "": // a model may be named alone
			j.Source = "hf"
		default:
			return ErrNoModel
		}
	}
	if err := word("source", j.Source, sources); err != nil {
		return err
	}
	switch {
	case hasConfig && j.Graph != "":
		return fmt.Errorf("both a config and a graph are given; keep one of them")
	case len(j.Config) > 0 && j.ConfigFile != "":
		return fmt.Errorf("both config and config_file are given; keep one of them")
	case j.Source == "hf" && !hasConfig && j.Model == "":
		return fmt.Errorf("source hf needs config (the content of a config.json) or config_file, or model (a name on the Hugging Face hub)")
	case j.Source == "graph" && j.Graph == "":
		return fmt.Errorf("source graph needs graph, a file written by torch.export.save")
	}
	return nil
}

func (j *Job) checkWords() error {
	defaults(&j.ParamDType, torch.FP32)
	defaults(&j.Optimizer, torch.DefaultOptimizer)
	defaults(&j.Loop, setup.Function)
	defaults(&j.ZeroGrad, "before-forward")
	if j.Source == "hf" {
		defaults(&j.Attn, setup.SDPA)
	}
	if j.LoRARank > 0 && len(j.LoRATargets) == 0 {
		j.LoRATargets = strings.Split(DefaultTargets, ",")
	}
	for _, d := range []*torch.DType{&j.ParamDType, &j.Autocast} {
		if named, ok := torch.DTypeNamed(strings.ToLower(string(*d))); ok {
			*d = named
		}
	}
	var err error
	if j.Attn != "" {
		if j.Attn, err = setup.ParseAttention(string(j.Attn)); err != nil {
			return err
		}
	}
	for _, w := range []struct {
		field, word string
		known       []string
	}{
		{"task", j.Task, tasks}, {"loss", j.Loss, losses}, {"loss_kernel", j.LossKernel, kernels}, {"param_dtype", string(j.ParamDType), torch.DTypes()}, {"autocast", string(j.Autocast), casts},
		{"loop", string(j.Loop), setup.Words(setup.Loops())}, {"zero_grad", j.ZeroGrad, zeroings}, {"attention_mask", j.AttentionMask, masks},
		{"routing", j.Routing, routings},
		{"load", string(j.Load), setup.Words(setup.Loads())},
		{"code", string(j.Code), setup.Words(setup.Codes())},
	} {
		if w.word == "" {
			continue
		}
		if err := word(w.field, w.word, w.known); err != nil {
			return err
		}
	}
	j.Optimizer, err = torch.ParseOptimizer(string(j.Optimizer))
	return err
}

func defaults[T ~string](field *T, standard T) {
	if *field == "" {
		*field = standard
	}
}

func word(field, w string, known []string) error {
	if slices.Contains(known, w) {
		return nil
	}
	return fmt.Errorf("%s %.40q is not known%s", field, w, spelling.Hint(w, known))
}

// missing is what a job lacks and a flag may still give.
type missing string

func (m missing) Error() string { return string(m) }

// Incomplete reports whether a job is refused only for something that a flag may still give.
func Incomplete(err error) bool {
	var m missing
	return errors.As(err, &m)
}

func (j *Job) checkSizes() error {
	if j.Batch == 0 {
		return missing("batch is missing: set --batch (\"batch\" in a job file), the number of samples in one micro-batch, for example --batch 8")
	}
	if j.Accumulate == 0 {
		j.Accumulate = 1
	}
	for _, s := range []struct {
		field       string
		value, most int
	}{
		{"batch", j.Batch, maxBatch}, {"seq", j.Seq, maxSeq}, {"target_seq", j.TargetSeq, maxSeq}, {"image", j.Image, maxImage},
		{"frames", j.Frames, maxFrames}, {"lora_rank", j.LoRARank, 1 << 14}, {"classes", j.Classes, maxSeq}, {"accumulate", j.Accumulate, maxBatch},
		{"checkpoint_layers", j.Layers, maxFrames}, {"resident_bytes", int(j.ResidentBytes), maxInput}, {"optimizers", j.Optimizers, maxFrames},
	} {
		if s.value < 0 {
			return fmt.Errorf("%s %d must not be negative", s.field, s.value)
		}
		if s.value > s.most {
			return fmt.Errorf("%s %d is too large (at most %d)", s.field, s.value, s.most)
		}
	}
	if len(j.Input) > 8 {
		return fmt.Errorf("input has %d dimensions; give the shape of one sample", len(j.Input))
	}
	elements := 1
	for _, n := range j.Input {
		if n <= 0 {
			return fmt.Errorf("input %v: every size must be at least 1", j.Input)
		}
		if n > maxInput || elements > maxInput/n {
			return fmt.Errorf("input %v is too large for one sample", j.Input)
		}
		elements *= n
	}
	return nil
}

func (j *Job) checkContradictions() error {
	if err := j.Attn.Runs(j.Precision()); err != nil {
		return err
	}
	text := slices.Contains([]string{"causal-lm", "masked-lm", "seq-cls", "token-cls", "seq2seq-lm", "question-answering"}, j.Task)
	switch {
	case j.Autocast != "" && j.Precision().Autocast() != j.Autocast:
		return fmt.Errorf("autocast %s does not go with parameters in %s: choose amp-%[1]s or %[2]s", j.Autocast, j.ParamDType)
	case j.TF32 && (j.Autocast != "" || j.ParamDType != torch.FP32):
		return fmt.Errorf("tf32 applies to fp32 only: drop it or the 16-bit setting")
	case j.Source == "graph" && j.Attn != "":
		return fmt.Errorf("attn %s has no effect on a graph, which contains its attention already", j.Attn)
	case j.Source == "graph" && j.Task != "":
		return fmt.Errorf("task %s has no effect on a graph, which contains its head already; for a graph that ends in logits set loss", j.Task)
	case j.Source == "hf" && (j.Loss != "" || j.LossOutput != ""):
		return fmt.Errorf("loss and loss_output are for graphs only; a Hugging Face model computes its own loss (set task)")
	case j.LossKernel != "" && (j.Source == "graph" || j.Task != "" && j.Task != "causal-lm"):
		return fmt.Errorf("loss_kernel %s is for causal-lm models that are built in: a graph, or another task, has its own loss", j.LossKernel)
	case text && j.Image != 0:
		return fmt.Errorf("task %s takes no image", j.Task)
	case j.Task == "image-cls" && j.Seq != 0:
		return fmt.Errorf("task image-cls takes no seq (set image instead)")
	case text && j.Seq == 0:
		return missing("seq is missing: set --seq (\"seq\" in a job file), the number of tokens in one sample, for example --seq 2048")
	case j.TargetSeq != 0 && !slices.Contains([]string{"", "seq2seq-lm", "speech-seq2seq", "ctc", "features"}, j.Task):
		return fmt.Errorf("task %s takes no target_seq", j.Task)
	case j.Layers != 0 && !j.Checkpointing:
		return fmt.Errorf("checkpoint_layers %d needs checkpointing", j.Layers)
	case j.LoRARank == 0 && (len(j.LoRATargets) > 0 || j.LoRADropout != 0 || j.BaseBits != 0 || j.DoRA):
		return fmt.Errorf("lora_targets, lora_dropout, dora and base_bits need lora_rank")
	case j.LoRARank > 0 && len(j.Freeze) > 0:
		return fmt.Errorf("freeze has no effect with lora_rank, which freezes the whole model already")
	case !(j.LoRADropout >= 0 && j.LoRADropout < 1): // NaN is neither
		return fmt.Errorf("lora_dropout %g must be at least 0 and below 1", j.LoRADropout)
	case j.BaseBits != 0 && j.BaseBits != 4 && j.BaseBits != 8:
		return fmt.Errorf("base_bits %d is not supported; 4 (NF4) and 8 (LLM.int8) are", j.BaseBits)
	case j.InBackward && j.Accumulate > 1:
		return fmt.Errorf("optimizer_in_backward frees each gradient at once, so nothing can be accumulated: set accumulate to 1")
	case j.InBackward && j.Autocast == torch.FP16:
		return fmt.Errorf("optimizer_in_backward leaves no gradients that a GradScaler could check: use bf16")
	case slices.Contains(j.Freeze, ""):
		return fmt.Errorf("freeze has an empty prefix, which would freeze everything")
	}
	return nil
}
