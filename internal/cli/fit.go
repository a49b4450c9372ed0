package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/internal/answer/plan"
	"github.com/plimsoll/plimsoll/internal/answer/planfile"
	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/show/screen"
	"github.com/plimsoll/plimsoll/internal/show/textout"
	"github.com/plimsoll/plimsoll/internal/spelling"
	"github.com/plimsoll/plimsoll/internal/torch"
)

type fitOptions struct {
	jobFlags
	machineFlags
	Effective int
	Axes      plan.Axes
	GPUs      int
	Allow     []string
	Write     string
	Plan      int
	JSON      bool
	Verbose   bool
	Verify    bool

	config  []byte   // the model's, where it has one
	command []string // a script that was captured
}

func newFitCommand(env Env) *cobra.Command {
	var o fitOptions
	cmd := &cobra.Command{
		Use:   "fit (MODEL | --config config.json | --graph FILE | --job FILE | -- COMMAND...)",
		Short: "find the fastest settings that fit on a card",
		Long: `Fit searches for the fastest settings that fit: micro-batch and accumulation,
checkpointing (none, selective, full), optimizer implementation, attention, allocator
settings, the loop, offloading and, with --gpus, sharding, tensor and pipeline
parallelism. The effective batch stays the same. Memory is predicted as by plimsoll
predict; time is estimated from the same operators.

MODEL alone is enough: plimsoll fit Qwen/Qwen3-8B --gpu 4090 compares full fine-tuning,
LoRA and QLoRA and takes the first that fits.

A command after -- is captured on the CPU up to its first training step; the plan is
then given as the script's own options, and as code where it has none.

By default only changes that keep the training the same are tried; --allow numerics
also tries other precisions and optimizers. What you name is fixed: --precision
fp32,amp-bf16 allows just these two. With --write only plans are ranked that the
framework can express.

Exit code 3: nothing fits; the answer then says what would.`,
		Example: `  plimsoll fit Qwen/Qwen3-8B --gpu 4090
  plimsoll fit --config config.json --seq 2048 --effective-batch 16 --precision amp-bf16 --gpu rtx-4090
  plimsoll fit --job job.json --gpu a100-40g --allow numerics
  plimsoll fit --gpu rtx-4090 -- python train.py --batch-size 64
  plimsoll fit --graph resnet50.pt2 --loss cross-entropy --optimizer sgdm --effective-batch 256 --memory 12GiB
  plimsoll fit --config config.json --seq 4096 --effective-batch 64 --precision bf16 --gpus 8 --gpu a100-80g
  plimsoll fit --config config.json --seq 2048 --effective-batch 16 --gpu l4 --write trainer > args.py`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if at := cmd.ArgsLenAtDash(); at >= 0 {
				return o.fitScript(env, cmd, args, at)
			}
			if len(args) > 1 {
				return usageError("%d arguments: name one model, or a command after --: plimsoll fit -- python train.py", len(args))
			}
			env, err := o.name(env, cmd, args)
			if err != nil {
				return err
			}
			return runFit(env, cmd, o)
		},
	}
	o.addModel(cmd)
	o.machineFlags.add(cmd)
	flags := cmd.Flags()
	flags.IntVar(&o.Effective, "effective-batch", 0, "samples per optimizer step, over all cards (default: batch × accumulate × cards)")
	flags.IntSliceVar(&o.Axes.MicroBatch, "micro-batch", nil, "micro-batches to try (default: every divisor)")
	addWords(flags, &o.Axes.Precision, "precision", "precisions to try, the first is the job's: "+strings.Join(torch.Precisions(), ", "), torch.ParsePrecision)
	addWords(flags, &o.Axes.Checkpointing, "checkpointing", "none, selective, full (default: all the model can)", setup.ParseCheckpointing)
	addWords(flags, &o.Axes.Optimizer, "optimizer", "optimizers to try, the first is the job's (default: forms of "+string(torch.DefaultOptimizer)+")", torch.ParseOptimizer)
	addWords(flags, &o.Axes.Attn, "attn", "attention: sdpa, eager, flash_attention_2 (default: the job's, and sdpa)", o.attention)
	addWords(flags, &o.Axes.Loop, "loop", "loop: function, loss, plain, script (default: the job's and function; with --write, the form's own)", setup.ParseLoop)
	addWords(flags, &o.Axes.Offload, "offload", "what to keep in host memory: none, optimizer (state and step), activations, both (default: none, optimizer)", setup.ParseOffload)
	flags.IntVar(&o.GPUs, "gpus", 1, "number of cards (several cards are computed, not measured)")
	addWords(flags, &o.Axes.Sharding, "sharding", "with --gpus: "+strings.Join(setup.Words(setup.Shardings()), ", ")+" (default: all)", setup.ParseSharding)
	flags.IntSliceVar(&o.Axes.Tensor, "tensor", nil, "with --gpus: cards per layer (tensor parallel) (default: 1, 2, 4, 8)")
	flags.IntSliceVar(&o.Axes.Stages, "stages", nil, "with --gpus: pipeline stages (default: powers of two)")
	flags.IntSliceVar(&o.Axes.Context, "context", nil, "with --gpus and --write torchtitan: cards per sample (context parallel) (default: powers of two)")
	flags.StringSliceVar(&o.Allow, "allow", nil, "numerics: also try other precisions and optimizers")
	flags.StringVar(&o.Write, "write", "", "print the plan for a framework: "+strings.Join(planfile.Formats(), ", "))
	flags.IntVar(&o.Plan, "plan", 1, "with --write: number of the plan in the table")
	flags.BoolVar(&o.Verify, "verify", false, "run the plan on this machine's card for a few steps, and print predicted against measured memory and time")
	flags.BoolVar(&o.JSON, "json", false, "print JSON ("+report.FitSchema+")")
	flags.BoolVarP(&o.Verbose, "verbose", "v", false, "print what the numbers assume")
	return cmd
}

// gcLimit is the memory from which on what predictions leave behind is collected as it comes; gcPercent how seldom before.
const (
	gcLimit   = 320 << 20
	gcPercent = 1600
)

func runFit(env Env, cmd *cobra.Command, o fitOptions) error {
	o.Write = o.verifiedForm()
	r, err := o.request(env, cmd)
	if err != nil {
		return err
	}
	if r.Job.DoRA {
		return usageError("--dora: fit has no plans with DoRA; plimsoll predict --dora says what one takes")
	}
	// Predictions make much and keep little: collecting it less often saves a quarter of the time, as long as there is little of it.
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(gcLimit))
	r.Notes = plan.NewNotes(r.Source, r.Machine)
	stop := progress(env, func() string { return "searching configurations" })
	defer stop()
	var fit *report.Fit
	if o.compares(r) {
		fit, r, err = plan.Compare(r)
	} else {
		fit, err = plan.Find(r)
	}
	if err != nil {
		return cannotPredict(&fileJob{Job: r.Job}, err)
	}
	if err := o.beyond(fit, r); err != nil {
		return err
	}
	stop()
	fit.Next = o.afterFit(cmd, r, fit)
	o.inScript(r, fit)
	switch {
	case o.Verify:
		return o.verify(env, r, fit)
	case o.JSON:
		if err := o.written(r, fit); err != nil {
			return err
		}
		err = json.NewEncoder(screen.JSON(env.Stdout)).Encode(fit)
	case o.Write != "":
		return writePlan(env, o, r, fit)
	default:
		s := screen.New(env.Stdout, env.Style)
		textout.Fit(s, fit, o.Verbose)
		err = s.Err()
	}
	if err != nil {
		return fmt.Errorf("write the plans: %w", err)
	}
	if !plan.AnyFits(fit) {
		return findingExit()
	}
	return nil
}

// beyond adds what changing numerics would buy, where the command line does not allow it already.
func (o *fitOptions) beyond(fit *report.Fit, r plan.Request) error {
	if r.Numerics || len(o.Axes.Precision) > 1 || len(o.Axes.Optimizer) > 1 || o.Write != "" {
		return nil
	}
	wide, err := plan.Beyond(fit, r)
	if err != nil {
		return usageError("%w", err)
	}
	fit.Numerics = wide
	return nil
}

// request reads the command line.
func (o *fitOptions) request(env Env, cmd *cobra.Command) (plan.Request, error) {
	r := plan.Request{Effective: o.Effective, GPUs: o.GPUs, Conf: o.Conf}
	var err error
	if r.Machine, err = o.machine(); err != nil {
		return r, err
	}
	if err := o.check(cmd); err != nil {
		return r, err
	}
	j, err := o.model(env, cmd)
	if err != nil {
		return r, err
	}
	o.settings(&j)
	if err := o.question(&j); err != nil {
		return r, err
	}
	files := newModelFiles(env, o.Python)
	if r.Source, err = files.source(&j); err != nil {
		return r, err
	}
	if r.Source.Config != nil {
		if o.config, err = configText(&j); err != nil {
			return r, unreadable(err)
		}
	}
	r.Job, r.Numerics = j.Job, slices.Contains(o.Allow, "numerics")
	r.Axes = o.Axes // what is named is fixed
	if o.Write != "" {
		model := o.handed(r)
		if r.Source.Config != nil && planfile.FromHost(o.Write) && r.Job.Load == "" {
			r.Job.Load = setup.LoadHost
		}
		o.loop(&r)
		r.Can = func(s setup.Setup) error { return planfile.Can(o.Write, s, model) }
	}
	return r, nil
}

// loop takes from the form that is written whose model it trains and what is kept of a step, where it has a model or a loop of its own.
func (o *fitOptions) loop(r *plan.Request) {
	r.Job.Code = planfile.Code(o.Write)
	r.Job.FloatOutputs = r.Source.Config != nil && planfile.FloatOutputs(o.Write)
	r.Job.UncachedCasts = planfile.UncachedCasts(o.Write)
	if mask := planfile.Mask(o.Write); r.Job.AttentionMask == "" {
		r.Job.AttentionMask = mask
	}
	loop, zeroGrad := planfile.Loop(o.Write)
	if loop == "" || len(r.Axes.Loop) > 0 {
		return
	}
	r.Axes.Loop = []setup.Loop{loop}
	if zeroGrad != "" {
		r.Job.ZeroGrad = zeroGrad
	}
}

// check refuses limits that contradict each other before anything is read.
func (o *fitOptions) check(cmd *cobra.Command) error {
	for _, w := range o.Allow {
		if w != "numerics" {
			return usageError("--allow %.30q is not known (there is: numerics)", w)
		}
	}
	if why := planfile.Unwritten(o.Write); why != "" {
		return usageError("--write %s: %s", o.Write, why)
	}
	if o.Write != "" && !slices.Contains(planfile.Formats(), o.Write) {
		return usageError("--write %.30q is not known%s", o.Write, spelling.Hint(o.Write, planfile.Formats()))
	}
	if cmd.Flags().Changed("effective-batch") && o.Effective < 1 {
		return usageError("--effective-batch %d: must be at least 1", o.Effective)
	}
	if o.GPUs < 1 {
		return usageError("--gpus %d: must be at least 1", o.GPUs)
	}
	return nil
}

// settings give the job what it is now: what its file says, else the first value of each axis.
func (o *fitOptions) settings(j *fileJob) {
	if len(o.Axes.Precision) > 0 && j.ParamDType == "" && j.Autocast == "" {
		j.SetPrecision(o.Axes.Precision[0])
	}
	first(&j.Optimizer, o.Axes.Optimizer)
	first(&j.Attn, o.Axes.Attn)
	o.noteAttention(j)
	first(&j.Loop, o.Axes.Loop)
	if j.Batch == 0 {
		switch {
		case o.Effective > 0:
			j.Batch = max(1, o.Effective/max(1, o.GPUs))
		case len(o.Axes.MicroBatch) > 0:
			j.Batch = max(1, slices.Max(o.Axes.MicroBatch))
		}
	}
}

// question fills in what a question that only names a model leaves open: its own precision, samples and batch as is usual.
func (o *fitOptions) question(j *fileJob) error {
	if !o.own {
		return nil
	}
	if err := o.ownPrecision(j); err != nil {
		return err
	}
	data, err := configText(j)
	if err != nil {
		return unreadable(err)
	}
	var of plan.Sample
	if c, err := hfconfig.Parse(data); err == nil {
		of = plan.Sample{Task: cmp.Or(j.Task, c.Task()), Positions: c.Positions(), AnyImage: !c.Has("image_size")}
	} else if vocabulary, positions := hfconfig.Language(data); vocabulary {
		of = plan.Sample{Task: j.Task, Positions: positions}
	} else {
		return nil // the reader of the model says what is wrong, or it is no language model
	}
	if assumed := plan.Usual(&j.Job, of, o.GPUs); len(assumed) > 0 {
		j.Notes = append(j.Notes, "assumed, as nothing else was given: "+strings.Join(assumed, ", "))
	}
	return nil
}

// compares tells whether full fine-tuning, LoRA and QLoRA are put side by side: a language model was named, and not how to train it.
func (o *fitOptions) compares(r plan.Request) bool {
	return o.own && o.Write == "" && r.GPUs <= 1 && r.Source.Adaptable() && r.Job.LoRARank == 0 && r.Source.Task(r.Job) == "causal-lm" && len(r.Job.Freeze) == 0
}

// first gives a field that was not set the first word of its axis.
func first[T ~string](field *T, words []T) {
	if *field == "" && len(words) > 0 {
		*field = words[0]
	}
}

// chosen is the plan that is to be written or run.
func (o *fitOptions) chosen(fit *report.Fit) (report.Plan, error) {
	if !plan.AnyFits(fit) {
		return report.Plan{}, coded{exitFinding, fmt.Errorf("nothing fits, so there is no plan to write; run the same command without --write to see what would fit")}
	}
	if o.Plan < 1 || o.Plan > len(fit.Plans) || !fit.Plans[o.Plan-1].Fits {
		return report.Plan{}, usageError("--plan %d: there are plans 1 to %d", o.Plan, len(fit.Plans))
	}
	return fit.Plans[o.Plan-1], nil
}

// planText is the chosen plan as the framework of --write reads it.
func (o *fitOptions) planText(r plan.Request, fit *report.Fit) (string, error) {
	p, err := o.chosen(fit)
	if err != nil {
		return "", err
	}
	text, err := planfile.Write(o.Write, p, o.handed(r))
	if err != nil {
		return "", usageError("%w", err)
	}
	return text, nil
}

// written adds the plan's text to an answer in JSON.
func (o *fitOptions) written(r plan.Request, fit *report.Fit) error {
	if o.Write == "" {
		return nil
	}
	text, err := o.planText(r, fit)
	if err != nil {
		return err
	}
	fit.Written = &report.Written{Plan: o.Plan, Form: o.Write, Text: text}
	return nil
}

// writePlan prints one plan for a framework.
func writePlan(env Env, o fitOptions, r plan.Request, fit *report.Fit) error {
	text, err := o.planText(r, fit)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprint(env.Stdout, text); err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	return nil
}

// handed is what the forms need to know of the model.
func (o *fitOptions) handed(r plan.Request) planfile.Model {
	m := planfile.Model{Hub: r.Source.Config != nil, Title: predict.Title(r.Job, r.Source), Modules: r.Job.CheckpointModules, Seq: r.Job.Seq, Task: r.Job.Task}
	if m.Hub {
		m.Family, m.Sizes = r.Source.Config.Type, planfile.SizesOf(r.Source.Config, o.config)
	}
	return m
}
