package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/answer/wholerun"
	"github.com/plimsoll/plimsoll/internal/model/lengths"
	"github.com/plimsoll/plimsoll/internal/script/capture"
	"github.com/plimsoll/plimsoll/internal/script/modelcode"
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/units"
)

// runFlags describe a whole run: how long its samples are, and how they become batches.
type runFlags struct {
	Lengths     string
	Sampler     lengths.Sampler
	Seed        uint64
	Orders      int
	Steps       int
	Epochs      int
	MaxLength   int
	MaxTokens   int
	DropLast    bool
	EvalLengths string
	EvalBatch   int
	EvalEvery   int
	EmptyEvery  int
	NoRemedies  bool
	WholeRun    bool // of a command: its own loader says how long samples are
}

func (f *runFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.Lengths, "lengths", "", "predict the whole run: a file with the length of every sample, a column of a data set (dataset:NAME,column=input_ids), or a distribution such as lognormal:130,0.7,max=1024")
	f.Sampler = lengths.Random
	addWord(flags, &f.Sampler, "sampler", "with --lengths: "+strings.Join(setup.Words(lengths.Samplers()), ", "), lengths.ParseSampler)
	flags.Uint64Var(&f.Seed, "seed", 1, "with --lengths: seed for the first order of the samples")
	flags.IntVar(&f.Orders, "orders", mostOrders, "with --lengths: how many orders of the samples to simulate, where they are shuffled; for runs of more than 2,500 batches the default is smaller, 2 from 10,000 on")
	flags.IntVar(&f.Steps, "steps", 0, "with --lengths or --whole-run: training batches (default: one epoch; 1,000 for a distribution)")
	flags.IntVar(&f.Epochs, "epochs", 0, "with --lengths or --whole-run: passes over the samples (default 1; of a script: what its Trainer says)")
	flags.IntVar(&f.MaxLength, "truncate", 0, "with --lengths: samples are cut at this length")
	flags.IntVar(&f.MaxTokens, "max-tokens", 0, "with --sampler tokens: most padded tokens in a batch")
	flags.BoolVar(&f.DropLast, "drop-last", false, "with --lengths: leave out a short last batch")
	flags.StringVar(&f.EvalLengths, "eval-lengths", "", "with --lengths: the same for the evaluation")
	flags.IntVar(&f.EvalBatch, "eval-batch", 0, "with --eval-lengths: samples in a batch (default: as --batch)")
	flags.IntVar(&f.EvalEvery, "eval-every", 0, "with --eval-lengths or --whole-run: training batches between evaluations (default: once, at the end; of a script: after each epoch)")
	flags.IntVar(&f.EmptyEvery, "empty-cache-every", 0, "with --lengths: the script calls torch.cuda.empty_cache() after this many batches")
	flags.BoolVar(&f.WholeRun, "whole-run", false, "with a command: predict its whole run; batches are those its own samplers and collate functions make, evaluation included")
	flags.BoolVar(&f.NoRemedies, "no-remedies", false, "with --lengths: do not look for what would make the run safe")
}

// runMemory is where garbage of a whole run is collected as it comes.
const runMemory = 3 << 30

// mostOrders is how many orders are simulated unless it is said. A long run meets every kind of batch in any order, so fewer tell as much: all of them together
// have at most ordered batches, where two are not more.
const (
	mostOrders = 8
	ordered    = 20_000
)

// fewerOrders is the default for a run of so many batches.
func fewerOrders(batches int) int {
	return min(mostOrders, max(2, ordered/max(batches, 1)))
}

// batches is about how many a run has.
func batches(q *wholerun.Question) int {
	if q.Steps > 0 {
		return q.Steps
	}
	return max(q.Epochs, 1) * len(q.Lengths.Known) / max(q.Batching.Batch, 1)
}

// defaultSteps is the length of a run whose lengths are drawn.
const defaultSteps = 1000

// predictRun predicts a whole run.
func predictRun(env Env, cmd *cobra.Command, o predictOptions, j fileJob, files *modelFiles, m predict.Machine) error {
	q, err := o.question(env, j, m)
	if err != nil {
		return err
	}
	if !cmd.Flags().Changed("orders") {
		q.Orders = fewerOrders(batches(&q))
	}
	if j.Seq == 0 {
		j.Seq = o.longest(&q)
	}
	if q.Source, err = files.source(&j); err != nil {
		return err
	}
	q.Job = j.Job
	return o.answer(env, cmd, q)
}

// answer simulates a run and prints what it needs.
func (o *predictOptions) answer(env Env, cmd *cobra.Command, q wholerun.Question) error {
	stop := progress(env, func() string { return "simulating the run" })
	r, err := answerRun(q, !o.NoRemedies)
	stop()
	if err != nil {
		return usageError("%w", err)
	}
	return o.print(env, cmd, *r)
}

// answerRun is the prediction of a run: the step with its longest batch, and the run around it.
func answerRun(q wholerun.Question, remedies bool) (*report.Prediction, error) {
	// A thousand shapes are made and kept: collecting seldom saves a fifth of the time.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(runMemory))
	s := wholerun.NewSim(q.Job, q.Source, q.Machine)
	run, verdict, err := s.Answer(q)
	if err != nil {
		return nil, err
	}
	step := q.Job
	if run.Longest > 0 {
		step.Seq, step.AttentionMask = run.Longest, "padded"
	}
	res, err := predict.Run(step, q.Source, q.Machine)
	if err != nil {
		return nil, err
	}
	if remedies && run.Failing > 0 {
		run.Remedies = s.Remedies(q)
	}
	r := &res.Report
	wholerun.Fill(r, run, verdict)
	return r, nil
}

// question is what the flags ask.
func (o *predictOptions) question(env Env, j fileJob, m predict.Machine) (wholerun.Question, error) {
	q := wholerun.Question{
		Machine: m, Steps: o.Steps, Epochs: o.Epochs, EvalEvery: o.EvalEvery, EmptyEvery: o.EmptyEvery, Orders: o.Orders,
		Batching: lengths.Batching{Sampler: o.Sampler, Batch: j.Batch, Row: max(o.MaxLength, j.Seq), Tokens: o.MaxTokens, Drop: o.DropLast, Seed: o.Seed},
	}
	for _, n := range []struct {
		flag  string
		value int
	}{
		{"steps", o.Steps}, {"epochs", o.Epochs}, {"truncate", o.MaxLength}, {"max-tokens", o.MaxTokens}, {"eval-batch", o.EvalBatch},
		{"eval-every", o.EvalEvery}, {"empty-cache-every", o.EmptyEvery}, {"orders", o.Orders - 1},
	} {
		if n.value < 0 {
			return q, usageError("--%s: a positive number is needed", n.flag)
		}
	}
	var err error
	if q.Lengths, err = o.readLengths(env, "--lengths", o.Lengths); err != nil {
		return q, err
	}
	q.Lengths.Cap = o.MaxLength
	if q.Lengths.Drawn != nil && q.Steps == 0 {
		if q.Epochs > 0 {
			return q, usageError("--epochs with a distribution: how many samples it has is not known; give --steps")
		}
		q.Steps = defaultSteps
	}
	if err := q.Batching.Check(); err != nil {
		return q, usageError("--sampler %s: %w", o.Sampler, err)
	}
	if o.EvalLengths == "" {
		return q, nil
	}
	evaluated, err := o.readLengths(env, "--eval-lengths", o.EvalLengths)
	if err != nil {
		return q, err
	}
	all := evaluated.Known
	batch := max(o.EvalBatch, j.Batch)
	if o.EvalBatch > 0 {
		batch = o.EvalBatch
	}
	if evaluated.Drawn != nil {
		all = evaluated.Drawn.Draw(64*batch, o.Seed)
	}
	q.Eval = lengths.Batching{Sampler: lengths.Sequential, Batch: batch}.Epoch(lengths.Cap(all, o.MaxLength), 0)
	return q, nil
}

// longest is the longest sample that a run may have.
func (o *predictOptions) longest(q *wholerun.Question) int {
	if q.Lengths.Drawn != nil {
		return slices.Max(lengths.Cap(q.Lengths.Drawn.Draw(1, o.Seed), o.MaxLength))
	}
	return slices.Max(lengths.Cap(q.Lengths.Known, o.MaxLength))
}

// readLengths reads a file, standard input (-), a column of a data set, or a distribution.
func (o *predictOptions) readLengths(env Env, flag, text string) (wholerun.Lengths, error) {
	if strings.HasPrefix(text, modelcode.DatasetPrefix) {
		d, err := modelcode.ParseDataset(text)
		if err != nil {
			return wholerun.Lengths{}, usageError("%s: %w", flag, err)
		}
		d.Download = o.Download
		all, err := newModelFiles(env, o.Python).code.Lengths(d)
		if err != nil {
			return wholerun.Lengths{}, unreadable(fmt.Errorf("%s: %w", flag, err))
		}
		return wholerun.Lengths{Known: all, Source: d.Name}, nil
	}
	if lengths.IsDistribution(text) {
		d, err := lengths.ParseDistribution(text)
		if err != nil {
			return wholerun.Lengths{}, usageError("%s: %w", flag, err)
		}
		return wholerun.Lengths{Drawn: &d, Source: d.String()}, nil
	}
	var r io.Reader = env.Stdin
	name := "standard input"
	if text != "-" {
		f, err := os.Open(text)
		if err != nil {
			if strings.Contains(text, ":") && !strings.ContainsRune(text, filepath.Separator) {
				_, err = lengths.ParseDistribution(text)
				return wholerun.Lengths{}, usageError("%s: %w", flag, err)
			}
			return wholerun.Lengths{}, unreadable(fmt.Errorf("%s: %w", flag, err))
		}
		defer f.Close()
		r, name = f, filepath.Base(text)
	}
	all, err := lengths.Read(r)
	if err != nil {
		return wholerun.Lengths{}, unreadable(fmt.Errorf("%s %s: %w", flag, name, err))
	}
	return wholerun.Lengths{Known: all, Source: name}, nil
}

// predictOwnRun predicts the run of a captured script, with the batches of its own loaders.
func (o *predictOptions) predictOwnRun(env Env, cmd *cobra.Command) error {
	found, err := capture.ReadBatches(filepath.Dir(o.JobFile))
	for flag, n := range map[string]int{"steps": o.Steps, "epochs": o.Epochs, "eval-every": o.EvalEvery, "empty-cache-every": o.EmptyEvery} {
		if n < 0 {
			return usageError("--%s: a positive number is needed", flag)
		}
	}
	switch {
	case err != nil:
		return unreadable(err)
	case len(found.Batches) == 0:
		return unreadable(fmt.Errorf("--whole-run: %s; give the lengths with --lengths and the model with --config instead", found.Why))
	}
	m, err := o.machine()
	if err != nil {
		return err
	}
	captured, err := o.job(env, cmd)
	if err != nil {
		return err
	}
	q, err := o.ownQuestion(found)
	if err != nil {
		return unreadable(err)
	}
	q.Machine = m
	j, err := ownJob(captured, found, &q)
	if err != nil {
		return unreadable(err)
	}
	j.Notes = append(j.Notes, ownNotes(found, &q)...)
	if q.Source, err = newModelFiles(env, o.Python).source(&j); err != nil {
		return err
	}
	q.Job = j.Job
	return o.answer(env, cmd, q)
}

// ownQuestion is the run as its loaders make it.
func (o *predictOptions) ownQuestion(found capture.Batches) (wholerun.Question, error) {
	q := wholerun.Question{EmptyEvery: o.EmptyEvery, Lengths: wholerun.Lengths{Source: "the script's own loader"}}
	var err error
	if q.Batches, err = ownBatches(found.Batches); err != nil {
		return q, err
	}
	if q.Eval, err = ownBatches(found.Eval); err != nil {
		return q, err
	}
	steps := cmp.Or(o.Steps, found.MaxSteps, len(q.Batches))
	for seen := q.Batches; len(q.Batches) < steps && len(q.Batches) < longestOwnRun; { // a run of so many steps begins anew where its data end
		q.Batches = append(q.Batches, seen...)
	}
	q.Batches = q.Batches[:min(steps, len(q.Batches))]
	if q.EvalEvery = cmp.Or(o.EvalEvery, found.EvalEvery); q.EvalEvery == 0 {
		q.EvalAfter = slices.DeleteFunc(slices.Clone(found.Epochs), func(at int) bool { return at > len(q.Batches) })
	}
	return q, nil
}

// longestOwnRun bounds the batches of a script's run.
const longestOwnRun = 1_000_000

// ownJob is the captured job for batches of any shape: a model of transformers from its configuration, any other from the graph of its step, which is right as
// long as only the number of samples differs.
func ownJob(captured fileJob, found capture.Batches, q *wholerun.Question) (fileJob, error) {
	j := captured
	j.Batch, j.Seq = 0, 0
	for _, b := range q.Batches {
		j.Batch, j.Seq = max(j.Batch, b.Samples), max(j.Seq, b.Longest)
	}
	if len(found.Config) > 0 {
		j = fileJob{Job: j.Job}
		j.Source, j.Graph, j.Config, j.Loss, j.LossOutput, j.Input, j.CheckpointModules = "hf", "", found.Config, "", "", nil, nil
		if found.Attn == string(setup.EagerAttention) {
			j.Attn = setup.EagerAttention
		}
		return j, nil
	}
	first := q.Batches[0].Longest
	for _, b := range slices.Concat(q.Batches, q.Eval) {
		if b.Longest != first {
			return j, fmt.Errorf("--whole-run: the script's model is not from transformers, and its batches differ in length (%d and %d tokens): "+
				"of such a model only the step of its first batch is known", first, b.Longest)
		}
	}
	for _, all := range [][]lengths.Batch{q.Batches, q.Eval} {
		for i := range all {
			all[i].Longest = 0
		}
	}
	j.Seq = captured.Seq
	return j, nil
}

// ownNotes say what of a script's run was not seen.
func ownNotes(found capture.Batches, q *wholerun.Question) []string {
	var out []string
	if !found.Complete {
		out = append(out, fmt.Sprintf("%s batches of the script's loader were looked at, in %d of %d epochs; %s",
			units.Count(len(found.Batches)), len(found.Epochs), max(found.Meant, 1), cmp.Or(found.Why, "there was no time for more")))
	}
	if len(q.Eval) > 0 && len(found.Config) == 0 {
		out = append(out, "evaluation runs the training graph without gradients")
	}
	return out
}

// ownBatches reads the batches a capture wrote.
func ownBatches(all [][3]any) ([]lengths.Batch, error) {
	out := make([]lengths.Batch, len(all))
	for i, b := range all {
		samples, ok := b[0].(float64)
		tokens, also := b[1].(float64)
		padded, too := b[2].(bool)
		if !ok || !also || !too || samples < 1 || tokens < 0 {
			return nil, fmt.Errorf("batch %d of the capture is %v, and should be samples, tokens, padded", i+1, b)
		}
		out[i] = lengths.Batch{Samples: int(samples), Longest: int(tokens), Padded: padded, At: -1}
	}
	return out, nil
}
