package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/gpu"
	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/exported"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/model/shard"
	"github.com/plimsoll/plimsoll/internal/model/traced"
	"github.com/plimsoll/plimsoll/internal/script/modelcode"
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/show/screen"
	"github.com/plimsoll/plimsoll/internal/show/textout"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

type predictOptions struct {
	jobFlags
	machineFlags
	spreadFlags
	runFlags
	Jobs    string
	Sweep   string
	Capture string // folder to keep a script's captured step in
	Follow  time.Duration
	Weights []string
	Moments int
	JSON    bool

	command []string      // to predict, where one was given
	trace   *traced.Trace // of a command: what it did past its first step
	begun   *traced.Trace // of a command that was not followed through a step within the time: what it did before
	script  string        // its name

	unfollowed string // of a command: why nothing is known past its first step; empty: it is
}

func newPredictCommand(env Env) *cobra.Command {
	var o predictOptions
	cmd := &cobra.Command{
		Use:   "predict (MODEL | --config config.json | --graph FILE | --job FILE | --jobs FILE.jsonl | -- COMMAND...)",
		Short: "predict whether a training job fits on a card, before it runs",
		Long: `Predict simulates three training steps of a job, counting the bytes PyTorch would
allocate, and says whether it fits: the peak by phase and by category, where in the
step it occurs, a safe upper bound, and the largest batch that would still fit. It
needs no GPU and, for built-in model families, no Python.

MODEL is a name on the Hugging Face hub whose config.json is in the local cache, a
config.json, or a folder with one. A model_type that is not built in is read from the
code of the installed transformers, once (--python says which Python).

The model may also be given with --config, or as a graph exported with
torch.export.save(torch.export.export(model, inputs), "model.pt2"). A job file has
the same settings as JSON; flags override it. Files named in it are relative to it.

A COMMAND (python train.py …) is run on the CPU up to its first training step, which
is captured and predicted; nothing is trained. What it does before that step (files it
writes, data it downloads) does happen. Then it is run again on tensors without
data, through further steps, evaluation and checkpoints, for at most --follow: the peak
is the highest of all phases. It needs Python with PyTorch 2.4 or newer.

Exit code 3: it does not fit.`,
		Example: `  plimsoll predict Qwen/Qwen3-8B --batch 1 --seq 2048 --gpu h100
  plimsoll predict --config config.json --batch 4 --seq 2048 --precision amp-bf16 --gpu rtx-4090
  plimsoll predict --graph resnet50.pt2 --batch 64 --loss cross-entropy --optimizer sgdm --memory 16GiB
  plimsoll predict --config config.json --seq 1024 --sweep batch=1..64 --gpu a100-40g
  plimsoll predict --config config.json --batch 1 --seq 4096 --precision bf16 --gpus 8 --sharding fsdp2 --gpu a100-80g
  plimsoll predict --jobs jobs.jsonl --gpu h200 --json
  plimsoll predict --gpu rtx-4090 -- python train.py --batch-size 32`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.ArgsLenAtDash() < 0 {
				if o.WholeRun {
					return usageError("--whole-run is for a command: plimsoll predict --whole-run -- python train.py")
				}
				env, err := o.name(env, cmd, args)
				if err != nil {
					return err
				}
				return runPredict(env, cmd, o)
			}
			if cmd.ArgsLenAtDash() != 0 {
				return usageError("give either a model (%s) or a command after --, not both", args[0])
			}
			if len(args) == 0 {
				return usageError("no command after --: plimsoll predict -- python train.py")
			}
			o.command = args
			return o.predictScript(env, cmd, args)
		},
	}
	o.jobFlags.add(cmd)
	o.machineFlags.add(cmd)
	o.spreadFlags.add(cmd)
	o.runFlags.add(cmd)
	cmd.Flags().StringVar(&o.Jobs, "jobs", "", "file with one job per line, as JSON")
	cmd.Flags().StringVar(&o.Capture, "capture", "", "with a command: keep the captured job and its graph in this folder")
	cmd.Flags().DurationVar(&o.Follow, "follow", 2*time.Minute, "with a command: how long to follow it past its first step; 0 predicts the first step alone")
	cmd.Flags().StringVar(&o.Sweep, "sweep", "", "try every combination of values, for example batch=1..64,seq=512,1024 (a..b doubles)")
	cmd.Flags().StringSliceVar(&o.Weights, "weights", nil, "safetensors files of the model: their parameters are counted and compared (headers only are read)")
	cmd.Flags().IntVar(&o.Moments, "timeline", 0, "with --json: add about this many instants of the run by category, and other batches (for plimsoll view)")
	cmd.Flags().BoolVar(&o.JSON, "json", false, "print JSON ("+report.PredictSchema+"), one object per line")
	return cmd
}

func runPredict(env Env, cmd *cobra.Command, o predictOptions) error {
	if err := o.contradiction(cmd); err != nil {
		return err
	}
	// What predictions leave behind is collected as it comes from this much memory on, and seldom before: a deep model must not take twice its memory, a small one not wait.
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(gcLimit))
	m, err := o.machine()
	if err != nil {
		return err
	}
	files := newModelFiles(env, o.Python)
	if o.Jobs != "" {
		return predictMany(env, cmd, o, m, files)
	}
	j, err := o.job(env, cmd)
	if err != nil { // an optimizer nobody has written down, or a model that cannot be described
		return o.withoutStep(env, cmd, m, err)
	}
	if o.Sweep != "" {
		return predictSweep(env, o, j, m, files)
	}
	if o.Lengths != "" {
		return predictRun(env, cmd, o, j, files, m)
	}
	src, err := files.source(&j)
	if err != nil {
		return o.withoutStep(env, cmd, m, err)
	}
	if o.asked() {
		return predictSpread(env, cmd, o, j, src, m)
	}
	stop := progress(env, func() string { return "predicting three training steps, and the largest batch" })
	defer stop()
	res, err := predict.Run(j.Job, src, m)
	if err != nil {
		return o.withoutStep(env, cmd, m, cannotPredict(&j, err))
	}
	steps := res
	if o.trace != nil {
		if res, err = predict.WithPhases(res, j.Optimizers, o.trace, m); err != nil {
			return err
		}
	}
	r := res.Report
	if o.unfollowed != "" {
		predict.Alone(&r, o.unfollowed)
	}
	var wait sync.WaitGroup
	wait.Go(func() { r.Least = predict.Least(res, m) })
	if !o.noCard() || o.Moments > 0 {
		r.Largest = predict.Largest(j.Job, src, m, steps)
	}
	wait.Wait()
	if o.Moments > 0 {
		r.Timeline = predict.Moments(res.Tape, min(o.Moments, maxMoments))
		r.Batches = predict.Batches(j.Job, src, m, r.Largest)
	}
	if err := compareWeights(o.Weights, &r); err != nil {
		return err
	}
	stop()
	return o.print(env, cmd, r)
}

// cannotPredict tells a model that contradicts itself from a setting that it cannot be trained with.
func cannotPredict(j *fileJob, err error) error {
	if errors.Is(err, eager.ErrMisfit) || errors.Is(err, exported.ErrNotGraph) {
		return unreadable(named(j, err))
	}
	return usageError("%w", err)
}

// contradiction refuses flags that would have no effect beside the others: an answer that ignores half of the question misleads.
func (o *predictOptions) contradiction(cmd *cobra.Command) error {
	said := cmd.Flags().Changed
	for _, many := range []string{"jobs", "sweep"} {
		for _, single := range []string{"gpus", "tensor", "stages", "weights", "timeline"} {
			if said(many) && said(single) {
				return usageError("--%s and --%s: %s is for one job at a time", many, single, single)
			}
		}
	}
	for _, flag := range []string{"sampler", "seed", "orders", "steps", "epochs", "truncate", "max-tokens", "drop-last", "eval-lengths", "empty-cache-every", "no-remedies"} {
		if said(flag) && o.Lengths == "" {
			return usageError("--%s is for whole runs: give --lengths", flag)
		}
	}
	switch {
	case o.Lengths != "" && (o.Jobs != "" || o.Sweep != "" || o.asked() || o.Graph != "" || said("timeline")):
		return usageError("--lengths is for one job of a text model on one card, without --jobs, --sweep, --gpus, --graph and --timeline")
	case (said("eval-batch") || said("eval-every")) && o.EvalLengths == "":
		return usageError("--eval-batch and --eval-every need --eval-lengths")
	case said("timeline") && (!o.JSON || o.Moments < 1):
		return usageError("--timeline needs --json and at least one instant")
	case (said("sharding") || said("bucket-view")) && o.GPUs == 1:
		return usageError("--sharding and --bucket-view need --gpus, the number of cards")
	case o.BucketView && o.Sharding != "ddp":
		return usageError("--bucket-view is a setting of DDP, not of %s", o.Sharding)
	case said("input") && said("config"):
		return usageError("--input is for graphs; a config.json takes --seq, --image or --frames")
	}
	return nil
}

// predictSpread predicts a job on several cards.
func predictSpread(env Env, cmd *cobra.Command, o predictOptions, j fileJob, src predict.Source, m predict.Machine) error {
	s, err := o.spread()
	if err != nil {
		return err
	}
	res, err := predict.RunSpread(j.Job, src, m, s)
	if err != nil {
		return cannotPredict(&j, err)
	}
	return o.print(env, cmd, res.Report)
}

// spreadFlags say how a job is distributed over cards.
type spreadFlags struct {
	GPUs       int
	Sharding   setup.Sharding
	BucketView bool
	Tensor     int
	Stages     int
}

func (f *spreadFlags) add(cmd *cobra.Command) {
	cmd.Flags().IntVar(&f.GPUs, "gpus", 1, "number of data-parallel cards (computed, not measured)")
	f.Sharding = setup.DDP
	addWord(cmd.Flags(), &f.Sharding, "sharding", "with --gpus: "+strings.Join(setup.Words(setup.Shardings()), ", "), setup.ParseSharding)
	cmd.Flags().BoolVar(&f.BucketView, "bucket-view", false, "DDP with gradient_as_bucket_view=True")
	cmd.Flags().IntVar(&f.Tensor, "tensor", 1, "cards per layer (tensor parallel)")
	cmd.Flags().IntVar(&f.Stages, "stages", 1, "pipeline stages")
}

func (f *spreadFlags) asked() bool { return f.GPUs != 1 || f.Tensor != 1 || f.Stages != 1 }

func (f *spreadFlags) spread() (predict.Spread, error) {
	s := predict.Spread{Plan: shard.Plan{Kind: f.Sharding, Ranks: f.GPUs, BucketView: f.BucketView, Stages: f.Stages}, Tensor: f.Tensor}
	if f.GPUs < 1 || f.Tensor < 1 || f.Stages < 1 {
		return s, usageError("--gpus, --tensor and --stages must be at least 1")
	}
	if f.GPUs > 1 {
		if err := s.Plan.Check(); err != nil {
			return s, usageError("--sharding: %w", err)
		}
	}
	return s, nil
}

const maxMoments = 100_000

// noCard tells that nobody said what the job has to fit on.
func (o *predictOptions) noCard() bool { return o.GPU == "" && o.Memory == "" && o.Cap == "" }

func (o *predictOptions) print(env Env, cmd *cobra.Command, r report.Prediction) error {
	if r.NoCard = o.noCard(); r.NoCard {
		r.Largest = nil // of a card nobody named
	}
	r.Next = o.afterPrediction(env, cmd, &r)
	if o.JSON {
		if err := json.NewEncoder(screen.JSON(env.Stdout)).Encode(r); err != nil {
			return fmt.Errorf("write the prediction: %w", err)
		}
	} else {
		s := screen.New(env.Stdout, env.Style)
		textout.Predict(s, &r)
		if err := s.Err(); err != nil {
			return fmt.Errorf("write the prediction: %w", err)
		}
	}
	if !r.Fits && r.Verdict != report.Unknown && !r.NoCard {
		return findingExit()
	}
	return nil
}

// machineFlags say where a job is to run.
type machineFlags struct {
	GPU    string
	Memory string
	Cap    string
	Torch  string
	Conf   string

	Workspaces string
}

func (f *machineFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.GPU, "gpu", "", "card: "+strings.Join(gpu.Names()[:4], ", ")+", a100-80g, rtx-4090, l4, t4, …")
	cmd.Flags().StringVar(&f.Memory, "memory", "", "memory of the card, for example 24GiB; 24 means 24 GiB (default: what --gpu has)")
	cmd.Flags().StringVar(&f.Cap, "cap", "", "what PyTorch may reserve, where the script calls torch.cuda.set_per_process_memory_fraction")
	cmd.Flags().StringVar(&f.Torch, "torch", "", "PyTorch version (default "+torch.Latest.String()+")")
	cmd.Flags().StringVar(&f.Conf, "conf", "", "allocator settings, as in PYTORCH_CUDA_ALLOC_CONF")
	cmd.Flags().StringVar(&f.Workspaces, "workspaces", "", "what cuDNN takes on the card: a .table that plimsoll doctor --measure-workspaces wrote")
}

// machine looks the card up. Without one, workspaces are those of the card of the measurements.
func (f *machineFlags) machine() (predict.Machine, error) {
	m := predict.Machine{Assumed: f.GPU == ""}
	name := f.GPU
	if name == "" {
		name = "h200"
	}
	var err error
	if m.Card, err = gpu.Find(name); err != nil {
		return m, usageError("%w", err)
	}
	if f.Memory != "" {
		if m.Capacity, err = units.ParseMemory(f.Memory); err != nil {
			return m, usageError("--memory: %w", err)
		}
		if m.Capacity <= 0 {
			return m, usageError("--memory %s: must be more than zero", f.Memory)
		}
	}
	if f.Cap != "" {
		if m.Cap, err = units.Parse(f.Cap); err != nil {
			return m, usageError("--cap: %w", err)
		}
		if m.Cap <= 0 {
			return m, usageError("--cap %s: must be more than zero", f.Cap)
		}
	}
	if f.Torch != "" {
		if m.Torch, err = torch.ParseVersion(f.Torch); err != nil {
			return m, usageError("--torch: %w", err)
		}
	}
	if f.Conf != "" {
		if m.Conf, err = alloc.ParseConf(f.Conf, m.Torch); err != nil {
			return m, usageError("--conf: %w", err)
		}
	}
	if f.Workspaces != "" {
		if m.Workspaces, err = readWorkspaces(f.Workspaces, m.Card); err != nil {
			return m, unreadable(err)
		}
	}
	return m, nil
}

// jobFlags are the settings of a job, by the names they have in its JSON form.
type jobFlags struct {
	job.Job
	JobFile   string
	Precision torch.Precision
	InputText string
	Python    string // for models that are not built in
	Download  bool   // the configuration may be fetched
	own       bool   // the model was named: its own precision is the default
	given     string // MODEL as it was written
	found     modelcode.Found
	named     string // --model, for people who write it as a flag
	attnSaid  string // --attn as it was written, where it is counted as another
}

func (f *jobFlags) add(cmd *cobra.Command) {
	f.addModel(cmd)
	flags := cmd.Flags()
	addWord(flags, &f.Precision, "precision", strings.Join(torch.Precisions(), ", ")+" (default fp32)", torch.ParsePrecision)
	addWord(flags, &f.Optimizer, "optimizer", optimizerHelp(), torch.ParseOptimizer)
	flags.BoolVar(&f.Checkpointing, "checkpointing", false, "activation checkpointing of every layer")
	flags.IntVar(&f.Layers, "checkpoint-layers", 0, "with --checkpointing: checkpoint only this many layers, from the first")
	flags.BoolVar(&f.OffloadActivations, "offload-activations", false, "keep what autograd saves in host memory (save_on_cpu)")
	addWord(flags, &f.Attn, "attn", "attention: sdpa, eager or flash_attention_2 (default sdpa)", f.attention)
	flags.StringVar(&f.ZeroGrad, "zero-grad", "", "when gradients are set to None: before-forward, before-backward (default before-forward)")
	addWord(flags, &f.Loop, "loop", "what the loop still refers to in the next forward pass: function (nothing), loss (nothing, and outputs are freed before backward), plain (batch, output, loss), script (output, loss); default function", setup.ParseLoop)
}

// optimizerHelp names the default optimizer in its forms and where the others are listed.
func optimizerHelp() string {
	return strings.Join(setup.Words(torch.DefaultOptimizer.Forms()), ", ") + ", … (default " + string(torch.DefaultOptimizer) + "; all: docs/predict.md)"
}

// addModel adds the flags of the model and its data: what stays when the way to train it varies.
func (f *jobFlags) addModel(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.ConfigFile, "config", "", "config.json of a Hugging Face model, or the folder it is in")
	flags.StringVar(&f.Python, "python", "", "Python with torch and transformers (or timm, diffusers), for models that are not built in (default: a virtual environment's, else python3)")
	flags.BoolVar(&f.Download, "download", false, "with the name of a model: fetch its config.json with huggingface_hub if it is not in the cache")
	flags.StringVar(&f.Graph, "graph", "", "graph from torch.export: a .pt2, or its model.json, plain or .gz")
	flags.StringVar(&f.JobFile, "job", "", "file with the job as JSON; - is standard input")
	flags.StringVar(&f.Model, "name", "", "label of the model")
	flags.StringVar(&f.named, "model", "", "the same as MODEL")
	_ = flags.MarkHidden("model") // MODEL is what help shows
	flags.StringVar(&f.Task, "task", "", "what the model is trained for: "+strings.Join(job.Tasks(), ", "))
	flags.IntVar(&f.Batch, "batch", 0, "samples in one micro-batch")
	flags.IntVar(&f.Seq, "seq", 0, "tokens in one sample")
	flags.IntVar(&f.TargetSeq, "target-seq", 0, "tokens in one target, for encoder-decoder models")
	flags.IntVar(&f.Image, "image", 0, "side of an image in pixels")
	flags.IntVar(&f.Frames, "frames", 0, "frames of a video or spectrogram")
	flags.StringVar(&f.InputText, "input", "", "shape of one sample for a graph, for example 3,224,224")
	flags.StringVar(&f.LossKernel, "loss-kernel", "", "how a causal-lm model computes its loss: liger (fused with the head), chunked (default: as transformers does)")
	flags.BoolVar(&f.InBackward, "optimizer-in-backward", false, "every parameter is updated, and its gradient freed, during backward (register_post_accumulate_grad_hook)")
	flags.BoolVar(&f.UseCache, "use-cache", false, "the model returns its keys and values (use_cache=True), which live until the next forward")
	flags.IntVar(&f.Accumulate, "accumulate", 0, "micro-batches per optimizer step (default 1)")
	flags.StringSliceVar(&f.Freeze, "freeze", nil, "do not train parameters whose names start with these prefixes")
	flags.BoolVar(&f.ChannelsLast, "channels-last", false, "use torch.channels_last for the model and images")
	flags.IntVar(&f.LoRARank, "lora-rank", 0, "train LoRA adapters of this rank instead of the model")
	flags.StringSliceVar(&f.LoRATargets, "lora-targets", nil, "linear layers that get adapters, or all-linear (default q_proj,v_proj)")
	flags.Float64Var(&f.LoRADropout, "lora-dropout", 0, "dropout before the adapters")
	flags.BoolVar(&f.DoRA, "dora", false, "the adapters are those of DoRA, which trains magnitudes beside them")
	flags.IntVar(&f.BaseBits, "base-bits", 0, "4 or 8: the frozen model is quantized (QLoRA)")
	flags.StringVar(&f.Loss, "loss", "", "loss of a graph that ends in logits: cross-entropy")
	flags.StringVar(&f.LossOutput, "loss-output", "", "output of the graph the loss is computed from")
}

// job reads the job file, if there is one, and lays the flags over it.
func (f *jobFlags) job(env Env, cmd *cobra.Command) (fileJob, error) {
	j, err := f.model(env, cmd)
	if err != nil {
		return j, err
	}
	return j, f.overlaySettings(cmd, &j)
}

// model does so for the model and its data alone.
func (f *jobFlags) model(env Env, cmd *cobra.Command) (fileJob, error) {
	j := fileJob{}
	if f.JobFile != "" {
		var err error
		if j, err = readJobFile(env, f.JobFile); err != nil {
			return j, err
		}
	}
	if err := f.overlay(cmd, &j); err != nil {
		return j, err
	}
	return j, nil
}

// ownPrecision is the precision that a model was saved in, for a model that was named and no precision said.
func (f *jobFlags) ownPrecision(j *fileJob) error {
	if !f.own || j.ParamDType != "" || j.Autocast != "" {
		return nil
	}
	data, err := configText(j)
	if err != nil {
		return unreadable(err)
	}
	if j.ParamDType = hfconfig.About(hfconfig.StandardJSON(data)).DType; j.ParamDType == "" && hfconfig.QuantizationOf(data).Dequantized() {
		j.ParamDType = torch.BF16
		return nil // what the weights are counted in is said with their quantization
	}
	if j.ParamDType != "" {
		j.Notes = append(j.Notes, fmt.Sprintf("precision %s is the model's own (dtype in config.json); --precision sets another", j.ParamDType))
	}
	return nil
}

// overlay sets what was said on the command line about the model and its data.
func (f *jobFlags) overlay(cmd *cobra.Command, j *fileJob) error {
	said := cmd.Flags().Changed
	if f.own && j.Model == "" {
		j.Model = f.Model
	}
	if said("config") || f.own {
		j.ConfigFile, j.Config, j.Graph, j.Source, j.dir = f.ConfigFile, nil, "", "", ""
	}
	if said("graph") {
		if said("config") {
			return usageError("give either --config or --graph, not both")
		}
		j.Graph, j.Config, j.ConfigFile, j.Source, j.dir = f.Graph, nil, "", "", ""
	}
	for flag, set := range map[string]func(){
		"name": func() { j.Model = f.Model }, "task": func() { j.Task = f.Task }, "batch": func() { j.Batch = f.Batch }, "seq": func() { j.Seq = f.Seq },
		"target-seq": func() { j.TargetSeq = f.TargetSeq }, "image": func() { j.Image = f.Image }, "frames": func() { j.Frames = f.Frames },
		"loss-kernel":           func() { j.LossKernel = f.LossKernel },
		"optimizer-in-backward": func() { j.InBackward = f.InBackward },
		"use-cache":             func() { j.UseCache = f.UseCache },
		"accumulate":            func() { j.Accumulate = f.Accumulate }, "freeze": func() { j.Freeze = f.Freeze },
		"lora-rank": func() { j.LoRARank = f.LoRARank }, "lora-targets": func() { j.LoRATargets = f.LoRATargets },
		"lora-dropout": func() { j.LoRADropout = f.LoRADropout }, "base-bits": func() { j.BaseBits = f.BaseBits }, "dora": func() { j.DoRA = f.DoRA },
		"channels-last": func() { j.ChannelsLast = f.ChannelsLast }, "loss": func() { j.Loss = f.Loss }, "loss-output": func() { j.LossOutput = f.LossOutput },
	} {
		if said(flag) {
			set()
		}
	}
	if said("input") {
		sizes, err := parseSizes(f.InputText)
		if err != nil {
			return usageError("--input: %w", err)
		}
		j.Input = sizes
	}
	if f.own {
		asFound(j, f.found)
	}
	return nil
}

// overlaySettings sets how the model is trained.
func (f *jobFlags) overlaySettings(cmd *cobra.Command, j *fileJob) error {
	said := cmd.Flags().Changed
	for flag, set := range map[string]func(){
		"optimizer": func() { j.Optimizer = f.Optimizer }, "checkpointing": func() { j.Checkpointing = f.Checkpointing }, "attn": func() { j.Attn = f.Attn },
		"loop": func() { j.Loop = f.Loop }, "zero-grad": func() { j.ZeroGrad = f.ZeroGrad }, "checkpoint-layers": func() { j.Layers = f.Layers },
		"offload-activations": func() { j.OffloadActivations = f.OffloadActivations },
	} {
		if said(flag) {
			set()
		}
	}
	f.noteAttention(j)
	if said("precision") {
		j.SetPrecision(f.Precision)
		return nil
	}
	return f.ownPrecision(j)
}
