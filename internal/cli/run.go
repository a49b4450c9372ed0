package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/internal/code/lint"
	"github.com/plimsoll/plimsoll/internal/live/machine"
	"github.com/plimsoll/plimsoll/internal/live/watch"
	"github.com/plimsoll/plimsoll/internal/script/fitrun"
	"github.com/plimsoll/plimsoll/internal/script/observe"
	"github.com/plimsoll/plimsoll/internal/script/probe"
	"github.com/plimsoll/plimsoll/internal/script/runner"
	"github.com/plimsoll/plimsoll/internal/script/verdict"
	"github.com/plimsoll/plimsoll/internal/show/screen"
)

type runOptions struct {
	report string
	record string
	json   bool
	log    bool // to the experiment tracker that the script uses
	wait   time.Duration

	fit   bool
	allow []string
	how   fitrun.Options
}

func newRunCommand(env Env) *cobra.Command {
	var opts runOptions
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND...",
		Short: "run a training command, report its memory use, and explain it if it runs out",
		Long: `Runs a command unchanged, with its own output, terminal, signals and exit code. Every
Python process in it that imports torch is observed. If it runs out of memory, the
cause is explained; otherwise two lines on stderr say how full the card got.

Recording costs little by default: allocations carry Python stacks in as many steps as
keeps that below 3 % of the step time (--record stacks: always, light: never).

With --fit the first training step is captured on the CPU and its peak predicted. The
command then starts with the smallest change that fits: micro-batches, checkpointing,
allocator and optimizer settings, the same effective batch. After an out-of-memory
error it restarts with what the recording suggests. All ranks run the same plan.`,
		Example: `  plimsoll run -- python train.py --epochs 3
  plimsoll run --report out -- torchrun --nproc-per-node 4 train.py
  plimsoll run --fit -- python train.py`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError("no command to run: plimsoll run -- python train.py")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return runRun(env, opts, args) },
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError("%s (flags of the command you run go after --: plimsoll run -- python train.py)", flagProblem(cmd, err))
	})
	cmd.Flags().StringVar(&opts.report, "report", "", "write snapshots and notes to this folder")
	cmd.Flags().StringVar(&opts.record, "record", string(probe.Auto), "stacks recorded with allocations: auto, stacks, light, off")
	cmd.Flags().BoolVar(&opts.log, "log", false, "log peak, reserved memory and growth to the tracker the script uses (W&B, MLflow, TensorBoard)")
	cmd.Flags().DurationVar(&opts.wait, "gather", 30*time.Second, "under srun: how long the first task waits for the others after its own end")
	cmd.Flags().BoolVar(&opts.json, "json", false, "end with one line of JSON on stderr instead of text")
	cmd.Flags().BoolVar(&opts.fit, "fit", false, "make it fit: predict the peak, change what is necessary, restart after an out-of-memory error")
	cmd.Flags().StringSliceVar(&opts.allow, "allow", nil, "with --fit: numerics allows changes of precision")
	cmd.Flags().IntVar(&opts.how.Split, "split", 1, "with --fit: start with this many micro-batches per batch")
	cmd.Flags().IntVar(&opts.how.Parts, "parts", 1, "with --fit: start by passing each batch to the model in this many parts, one after the other")
	cmd.Flags().BoolVar(&opts.how.Checkpoint, "checkpoint", false, "with --fit: start with activation checkpointing")
	cmd.Flags().BoolVar(&opts.how.Blind, "no-predict", false, "with --fit: start at once, without capturing the first step on the CPU")
	cmd.Flags().BoolVar(&opts.how.Losses, "losses", false, "with --fit: write the loss of every whole batch to the report")
	return cmd
}

func (o *runOptions) check() error {
	if !slices.Contains(probe.Records(), probe.Record(o.record)) {
		return usageError("--record %s: must be auto, stacks, light or off", o.record)
	}
	for _, a := range o.allow {
		if a != "numerics" {
			return usageError("--allow %s: only numerics can be allowed", a)
		}
	}
	if o.how.Split < 1 {
		return usageError("--split %d: must be at least 1", o.how.Split)
	}
	if o.how.Parts < 1 {
		return usageError("--parts %d: must be at least 1", o.how.Parts)
	}
	if !o.fit && (o.how.Split > 1 || o.how.Parts > 1 || o.how.Checkpoint || o.how.Blind || len(o.allow) > 0) {
		return usageError("--split, --parts, --checkpoint, --no-predict and --allow go with --fit")
	}
	return nil
}

func runRun(env Env, o runOptions, args []string) error {
	if err := o.check(); err != nil {
		return err
	}
	say := func(line string) { fmt.Fprintf(env.Stderr, "plimsoll: %s\n", line) }
	request := observe.Request{Args: args, Env: env.Environ(), Stdin: env.Stdin, Stdout: env.Stdout, Stderr: env.Stderr,
		Report: o.report, Record: probe.Record(o.record), Say: say, Helper: env.Helper}
	if o.log {
		request.Env = append(request.Env, "PLIMSOLL_LOG=1")
	}
	if tasks, many := observe.SlurmTasks(request.Variable); many && !o.fit {
		request.Tasks, request.Report = tasks, cmp.Or(o.report, "plimsoll-"+tasks.Step)
	}
	if env.Driver != nil {
		var close func()
		request.Driver, close = env.Driver()
		defer close()
	}
	run, err := observe.Open(request)
	if err != nil {
		say(fmt.Sprintf("%v; the command runs unobserved.", err))
	}
	defer run.Close()
	done, err := o.carryOut(env, run)
	if err != nil {
		return exitWith(done.Outcome, err)
	}
	if !run.Tasks.Leads() {
		return exitWith(done.Outcome, run.HandIn(done.Outcome))
	}
	if missing := run.Await(o.wait); missing > 0 {
		say(fmt.Sprintf("%d of %d tasks have not reported within %s (--gather); the answer is without them.", missing, run.Tasks.Count, o.wait))
	}
	r := run.Conclude(done.Outcome)
	if err := printRun(env, o, r, say); err != nil {
		return err
	}
	if o.fit && done.Outcome.Code == 0 {
		for _, line := range fitrun.Changes(done.Plan, r.Notes) {
			say(line)
		}
	}
	return exitWith(done.Outcome, nil)
}

// carryOut runs the command, once or until it fits.
func (o runOptions) carryOut(env Env, run *observe.Run) (fitrun.Result, error) {
	if !o.fit {
		outcome, err := run.Attempt(nil, nil)
		return fitrun.Result{Outcome: outcome}, err
	}
	how := o.how
	how.Numerics, how.Cards = len(o.allow) > 0, env.Cards
	how.Progress = func(what string) func() { return progress(env, func() string { return what }) }
	return fitrun.Run(run, how)
}

// printRun says, after the command's own output, what it did to memory.
func printRun(env Env, o runOptions, r observe.Result, say func(string)) error {
	if o.json {
		data, err := json.Marshal(r.Record)
		if err != nil {
			return fmt.Errorf("write the outcome: %w", err)
		}
		fmt.Fprintf(screen.JSON(env.Stderr), "%s\n", data)
		return nil
	}
	for _, line := range r.Lines {
		say(line)
	}
	if r.Kind == verdict.OutOfMemory || r.Printed {
		printCause(env, r, say)
	}
	sayGrowth(env, r.Grown, say)
	if r.Peak != "" {
		say("its peak is recorded, with who held the memory: plimsoll explain " + r.Peak)
	}
	return nil
}

// printCause shows why memory ran out, from the snapshots where there are any, and from the errors' texts.
func printCause(env Env, r observe.Result, say func(string)) {
	if r.KeptIn == "" {
		say("memory ran out, but no record could be written that explains why.")
		return
	}
	// The command owns stdout.
	env.Stdout, env.Style.Color = env.Stderr, env.Style.Color && env.StderrIsTerminal
	err := runExplain(env, explainOptions{}, slices.Concat(r.Snapshots, r.Texts))
	if isUnreadable(err) && len(r.Snapshots) > 0 {
		err = runExplain(env, explainOptions{}, r.Snapshots)
	}
	if isUnreadable(err) && len(r.Snapshots) > 0 {
		say(err.Error())
	}
	for _, f := range r.InSource {
		sayFinding(f, say)
	}
	say("the record is kept in " + r.KeptIn)
}

func sayFinding(f lint.Finding, say func(string)) {
	say(fmt.Sprintf("%s:%d %s %s", filepath.Base(f.File), f.Line, f.Rule, screen.Clean(f.Message)))
	if f.Fix != "" {
		say("  " + screen.Clean(f.Fix))
	}
}

func isUnreadable(err error) bool {
	var c coded
	return errors.As(err, &c) && c.code == exitUnreadable
}

// exitWith ends plimsoll as the command ended.
func exitWith(outcome runner.Outcome, err error) error {
	var interrupted fitrun.Interrupted
	switch {
	case errors.As(err, &interrupted):
		return coded{code: 128 + int(interrupted.Signal)}
	case err != nil:
		return coded{outcome.Code, err}
	case outcome.Code == 0:
		return nil
	}
	return coded{code: outcome.Code}
}

// driverHere connects to the driver of this machine; nil where there is none.
func driverHere(getenv func(string) string) (source watch.Source, close func()) {
	m, err := machine.Open(getenv("XDG_RUNTIME_DIR"))
	if err != nil {
		return nil, func() {}
	}
	return m, func() { m.Close() }
}

// newHelperCommand is what plimsoll starts itself as, to look after a command should it be killed (runner.Help).
func newHelperCommand() *cobra.Command {
	return &cobra.Command{Use: "helper", Hidden: true, DisableFlagParsing: true, RunE: func(_ *cobra.Command, args []string) error { return runner.Help(args) }}
}

// cardsHere reads the GPUs of this machine once; none where none can be read.
func cardsHere(getenv func(string) string) []watch.Card {
	m, err := machine.Open(getenv("XDG_RUNTIME_DIR"))
	if err != nil {
		return nil
	}
	defer m.Close()
	r, err := m.Read(context.Background(), time.Now())
	if err != nil {
		return nil
	}
	return r.Cards
}
