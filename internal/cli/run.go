package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/internal/evidence/probenotes"
	"github.com/plimsoll/plimsoll/internal/script/probe"
	"github.com/plimsoll/plimsoll/internal/script/runner"
)

type runOptions struct {
	report string
	record string
	fit    fitRunOptions
	json   bool
}

func newRunCommand(env Env) *cobra.Command {
	var opts runOptions
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND...",
		Short: "run a training command as it is; say what it did to memory, and why if it died",
		Long: `Runs a command unchanged. Its output, terminal, signals and exit code are its own;
every Python process in it that imports torch is observed. When memory ends it, the
cause is explained; when all goes well, two lines on stderr say how full the card got.

Recording costs little by default: allocations carry Python stacks in as many steps as
keeps that below 3 % of the step time (--record stacks: always, light: never).

With --fit the first training step is captured on the CPU and its peak predicted. The
command then starts with the mildest change that fits: micro-batches, checkpointing,
allocator and optimizer settings, the same effective batch. After an out-of-memory it
starts anew with what the recording calls for. All ranks of a job run the same plan.`,
		Example: `  plimsoll run -- python train.py --epochs 3
  plimsoll run --report out -- torchrun --nproc-per-node 4 train.py
  plimsoll run --fit -- python train.py`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return runRun(env, opts, args) },
	}
	cmd.Flags().StringVar(&opts.report, "report", "", "keep snapshots and notes in this folder")
	cmd.Flags().StringVar(&opts.record, "record", "auto", "stacks recorded with allocations: auto, stacks, light, off")
	cmd.Flags().BoolVar(&opts.json, "json", false, "close with one line of JSON on stderr instead of text")
	opts.fit.flags(cmd)
	return cmd
}

func runRun(env Env, opts runOptions, args []string) error {
	switch opts.record {
	case "auto", "stacks", "light", "off":
	default:
		return usageError("--record %s: want auto, stacks, light or off", opts.record)
	}
	if err := opts.fit.check(); err != nil {
		return err
	}
	job, err := openRun(env, opts)
	if err != nil {
		fmt.Fprintf(env.Stderr, "plimsoll: %v; the command runs unobserved.\n", err)
		return exitWith(runner.Run(childOf(env, args, env.Environ())))
	}
	defer job.close()
	if opts.fit.on {
		return job.runToFit(args)
	}
	outcome, err := job.attempt(args, "", nil)
	if err != nil {
		return exitWith(outcome, err)
	}
	job.conclude(outcome, args)
	return exitWith(outcome, nil)
}

// observedRun is one command under observation: where its probe lies and where its record goes.
type observedRun struct {
	env    Env
	opts   runOptions
	folder string // temporary: the probe, and the report when nobody asked to keep it
	report string
	keep   bool
}

func openRun(env Env, opts runOptions) (*observedRun, error) {
	folder, err := os.MkdirTemp("", "plimsoll-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the probe: %w", err)
	}
	r := &observedRun{env: env, opts: opts, folder: folder, report: filepath.Join(folder, "report")}
	if opts.report != "" {
		r.report, err = filepath.Abs(opts.report)
	}
	if err == nil {
		err = os.MkdirAll(r.report, 0o755)
	}
	if err == nil {
		err = writable(r.report)
	}
	if err == nil {
		err = probe.Install(filepath.Join(folder, "probe"))
	}
	if err != nil {
		os.RemoveAll(folder)
		return nil, fmt.Errorf("prepare the record: %w", err)
	}
	return r, nil
}

func writable(folder string) error {
	f, err := os.CreateTemp(folder, ".plimsoll-*")
	if err != nil {
		return err
	}
	f.Close()
	return os.Remove(f.Name())
}

func (r *observedRun) close() {
	if r.keep && r.opts.report == "" {
		os.RemoveAll(filepath.Join(r.folder, "probe"))
		return
	}
	os.RemoveAll(r.folder)
}

// attempt runs the command once in fresh processes, with a plan of what to change when fitting, until it ends or stop is closed.
func (r *observedRun) attempt(args []string, plan string, stop <-chan struct{}) (runner.Outcome, error) {
	base := r.env.Environ()
	if plan != "" {
		base = append(base, r.opts.fit.variables(plan, base)...)
	}
	environ := probe.Environ(base, filepath.Join(r.folder, "probe"),
		probe.Settings{Mode: probe.Observe, Report: r.report, Record: r.opts.record, Fit: plan})
	command := childOf(r.env, args, environ)
	command.Stop = stop
	return runner.Run(command)
}

func childOf(env Env, args, environ []string) runner.Command {
	return runner.Command{Args: args, Env: environ, Stdin: env.Stdin, Stdout: env.Stdout, Stderr: env.Stderr}
}

// conclude says, after the command's own output, what it did to memory.
func (r *observedRun) conclude(outcome runner.Outcome, args []string) {
	processes := r.collect()
	dead := probenotes.Died(processes)
	if outcome.Code == 0 {
		dead = nil // it survived its failures
	}
	r.write(outcome, args, processes)
	if r.opts.json {
		return
	}
	switch {
	case len(dead) > 0:
		r.explain(dead, processes)
	case outcome.Code != 0 && outcome.Killed():
		r.say(killedLine(outcome, processes))
	case outcome.Code != 0:
		r.say("%s ended with code %d, not for want of memory.%s", args[0], outcome.Code, peakOf(processes))
	default:
		for _, line := range probenotes.Healthy(processes) {
			r.say("%s", line)
		}
	}
}

func (r *observedRun) say(format string, args ...any) {
	fmt.Fprintf(r.env.Stderr, "plimsoll: "+format+"\n", args...)
}

// collect reads the notes of every process of the run; what cannot be read is left out.
func (r *observedRun) collect() []probenotes.Process {
	paths, _ := filepath.Glob(filepath.Join(r.report, "rank*.json"))
	var all []probenotes.Process
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		p, err := probenotes.Read(f)
		f.Close()
		if err != nil {
			r.say("%s: %v", filepath.Base(path), err)
			continue
		}
		all = append(all, p)
	}
	return all
}

// explain shows why memory ran out, from the snapshots where there are any, and from the errors' texts.
func (r *observedRun) explain(dead, all []probenotes.Process) {
	if who := probenotes.WhoDied(dead, all); who != "" {
		r.say("%s", who)
	}
	var snapshots, texts []string
	for _, p := range dead {
		snapshots = append(snapshots, r.snapshotOf(p)...)
		texts = append(texts, r.textOf(p)...)
	}
	evidence := slices.Concat(snapshots, texts)
	if len(evidence) == 0 {
		r.say("memory ran out, but nothing could be written that would tell why.")
		return
	}
	r.keep = true
	// The command owns stdout.
	env := r.env
	env.Stdout, env.Style.Color = env.Stderr, env.Style.Color && env.StderrIsTerminal
	if err := runExplain(env, explainOptions{}, evidence); err != nil && isUnreadable(err) && len(snapshots) > 0 {
		err = runExplain(env, explainOptions{}, snapshots)
		if isUnreadable(err) {
			r.say("%v", err)
		}
	}
	r.tieToCode(dead)
	r.say("the record is kept in %s", r.report)
}

func isUnreadable(err error) bool {
	var c coded
	return errors.As(err, &c) && c.code == exitUnreadable
}

func (r *observedRun) snapshotOf(p probenotes.Process) []string {
	if p.Snapshot == "" || filepath.Base(p.Snapshot) != p.Snapshot {
		return nil
	}
	path := filepath.Join(r.report, p.Snapshot)
	if _, err := os.Stat(path); err != nil {
		return nil
	}
	return []string{path}
}

func (r *observedRun) textOf(p probenotes.Process) []string {
	if p.Error == nil {
		return nil
	}
	path := filepath.Join(r.report, fmt.Sprintf("rank%d-%d.txt", p.Rank, p.PID))
	if err := os.WriteFile(path, []byte(p.Error.Traceback), 0o644); err != nil {
		return nil
	}
	return []string{path}
}

// record is the run's outcome as JSON (schema plimsoll.run/1).
type record struct {
	Schema    string   `json:"schema"`
	Command   []string `json:"command"`
	Code      int      `json:"code"`
	Signal    string   `json:"signal,omitempty"`
	Killed    bool     `json:"killed"`
	OutOfMem  bool     `json:"out_of_memory"`
	Processes int      `json:"processes"`
	Peak      int64    `json:"peak_allocated"`
	Summary   []string `json:"summary"`
}

func (r *observedRun) write(outcome runner.Outcome, args []string, processes []probenotes.Process) {
	rec := record{Schema: "plimsoll.run/1", Command: args, Code: outcome.Code, Killed: outcome.Killed() && outcome.Code != 0,
		OutOfMem: len(probenotes.Died(processes)) > 0 && outcome.Code != 0, Processes: len(processes), Summary: probenotes.Healthy(processes)}
	if outcome.Signal != 0 {
		rec.Signal = outcome.Signal.String()
	}
	for _, p := range processes {
		rec.Peak = max(rec.Peak, int64(p.Peak.Allocated))
	}
	data, err := json.Marshal(rec)
	if err != nil {
		return
	}
	if err := os.WriteFile(filepath.Join(r.report, "run.json"), append(data, '\n'), 0o644); err != nil {
		r.say("cannot write %s: %v", filepath.Join(r.report, "run.json"), errors.Unwrap(err))
	}
	if r.opts.json {
		fmt.Fprintf(r.env.Stderr, "%s\n", data)
	}
}

func killedLine(outcome runner.Outcome, processes []probenotes.Process) string {
	line := "the command was killed (SIGKILL) from outside; its GPU memory did not do it."
	if outcome.KernelKills > 0 {
		line = "the kernel killed it: host memory ran out, not the GPU's (fewer DataLoader workers, smaller host caches)."
	}
	return line + peakOf(processes)
}

func peakOf(processes []probenotes.Process) string {
	lines := probenotes.Healthy(processes)
	if len(processes) == 0 || !strings.HasPrefix(lines[0], "peak") {
		return ""
	}
	return " P" + lines[0][1:]
}

// exitWith ends plimsoll as the command ended.
func exitWith(outcome runner.Outcome, err error) error {
	if err != nil {
		return coded{outcome.Code, err}
	}
	if outcome.Code == 0 {
		return nil
	}
	return coded{code: outcome.Code}
}
