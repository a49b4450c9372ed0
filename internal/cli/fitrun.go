package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/internal/evidence/probenotes"
	"github.com/plimsoll/plimsoll/internal/script/attempt"
	"github.com/plimsoll/plimsoll/internal/script/forecast"
	"github.com/plimsoll/plimsoll/internal/script/runner"
)

const (
	maxAttempts = 8  // bounds how often a command is started anew
	refusedCode = 86 // exit code of a process that cannot honour its plan (_fit.py)
)

type fitRunOptions struct {
	on         bool
	allow      []string
	split      int
	checkpoint bool
	losses     bool
	blind      bool // start without a prediction
}

func (o *fitRunOptions) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.on, "fit", false, "make it fit: predict its peak, change what has to be, start anew after an out-of-memory")
	cmd.Flags().StringSliceVar(&o.allow, "allow", nil, "with --fit: numerics permits changes of precision")
	cmd.Flags().IntVar(&o.split, "split", 1, "with --fit: start with so many micro-batches a batch")
	cmd.Flags().BoolVar(&o.checkpoint, "checkpoint", false, "with --fit: start with activation checkpointing")
	cmd.Flags().BoolVar(&o.blind, "no-predict", false, "with --fit: start at once, without capturing the first step on the CPU")
	cmd.Flags().BoolVar(&o.losses, "losses", false, "with --fit: note the loss of every whole batch in the report")
}

func (o *fitRunOptions) check() error {
	for _, a := range o.allow {
		if a != "numerics" {
			return usageError("--allow %s: the only thing to allow is numerics", a)
		}
	}
	if o.split < 1 {
		return usageError("--split %d: want at least 1", o.split)
	}
	if !o.on && (o.split > 1 || o.checkpoint || o.blind || len(o.allow) > 0) {
		return usageError("--split, --checkpoint, --no-predict and --allow go with --fit")
	}
	return nil
}

// variables are what the allocator reads before Python starts. The name PYTORCH_CUDA_ALLOC_CONF is read by every version;
// PYTORCH_ALLOC_CONF is ignored for CUDA by 2.9.1.
func (o *fitRunOptions) variables(plan string, base []string) []string {
	if !strings.Contains(plan, `"expandable":true`) {
		return nil
	}
	conf := ""
	for _, entry := range base {
		if value, ok := strings.CutPrefix(entry, "PYTORCH_CUDA_ALLOC_CONF="); ok {
			conf = value
		}
	}
	if strings.Contains(conf, "expandable_segments") {
		return nil
	}
	if conf != "" {
		conf += ","
	}
	return []string{"PYTORCH_CUDA_ALLOC_CONF=" + conf + "expandable_segments:True"}
}

// fitting is a command on its way to fit: the plan it runs under, what may not be planned, and what was foreseen of it.
type fitting struct {
	*observedRun
	args   []string
	plan   attempt.Plan
	limits attempt.Limits
	ahead  *forecast.Question // nil: nothing was foreseen
}

// runToFit starts the command with what a prediction calls for, and anew after each failure for want of memory, until it runs or nothing is
// left to change. All ranks of a job run under the same plan: the decision falls here, before and between attempts, for all of them.
func (r *observedRun) runToFit(args []string) error {
	o := r.opts.fit
	f := &fitting{observedRun: r, args: args, limits: attempt.Limits{Numerics: len(o.allow) > 0}}
	f.plan = attempt.Plan{Split: o.split, Checkpoint: o.checkpoint, Losses: o.losses}
	if why := beyondUs(args, r.variable); why != "" {
		r.say("left alone: %s.", why)
		f.limits = attempt.Limits{NoSplit: true, NoCheckpoint: true, Nothing: true}
		f.plan = attempt.Plan{Split: 1, Losses: o.losses}
	} else if !o.blind && o.split == 1 && !o.checkpoint {
		if err := f.lookAhead(); err != nil {
			return err
		}
	}
	var outcome runner.Outcome
	for range maxAttempts {
		var err error
		r.clear()
		if outcome, err = r.attemptTogether(args, f.plan.JSON()); err != nil {
			return exitWith(outcome, err)
		}
		if !f.again(outcome, r.collect()) {
			break
		}
	}
	r.conclude(outcome, args)
	if outcome.Code == 0 {
		r.sayChanges(f.plan)
	}
	return exitWith(outcome, nil)
}

// lookAhead sets the plan to start with.
func (f *fitting) lookAhead() error {
	ahead, err := f.foresee(f.args)
	if err != nil || ahead == nil {
		return err
	}
	f.ahead = ahead
	f.startAsForeseen()
	return nil
}

func (f *fitting) startAsForeseen() {
	f.plan = f.startWith(f.ahead, f.limits)
	f.plan.Losses = f.opts.fit.losses
}

// again sets the plan of the next attempt; false when this one was the last.
func (f *fitting) again(outcome runner.Outcome, processes []probenotes.Process) bool {
	if outcome.Asked != 0 {
		return false // someone wants it to end
	}
	if refused, ok := refusal(processes); ok {
		f.takeOut(refused)
		return true
	}
	if outcome.Code == refusedCode && !f.limits.Nothing {
		f.say("what was to change cannot be honoured, and why could not be written down; starting anew untouched.")
		f.plan, f.limits.Nothing, f.ahead = attempt.Plan{Split: 1}, true, nil
		return true
	}
	dead := probenotes.Died(processes)
	if outcome.Code == 0 || len(dead) == 0 || f.limits.Nothing {
		return false
	}
	next, why, p, ok := attempt.NextOf(f.plan, dead, f.limits)
	if !ok {
		f.say("nothing is left to change that would make it fit.")
		return false
	}
	f.plan = next
	f.say("out of memory%s; %s. Starting anew: %s.", onRank(p), why, next.Changes(p.Batch()))
	return true
}

func onRank(p probenotes.Process) string {
	if p.WorldSize < 2 {
		return ""
	}
	return fmt.Sprintf(" on rank %d", p.Rank)
}

// refusal is why a plan cannot be honoured: one rank that cannot speaks for all.
func refusal(processes []probenotes.Process) (probenotes.Process, bool) {
	for _, p := range processes {
		if p.Fit != nil && p.Fit.Refused != "" {
			return p, true
		}
	}
	return probenotes.Process{}, false
}

// takeOut takes out of the plan what the script cannot honour, says so, and looks for another way where one can be foreseen.
func (f *fitting) takeOut(by probenotes.Process) {
	refused := *by.Fit
	what := "micro-batches"
	if strings.Contains(refused.Refused, "to checkpoint") {
		what = "checkpointing"
	}
	who := ""
	if by.WorldSize > 1 {
		who = fmt.Sprintf(" on all %d ranks, for rank %d", by.WorldSize, by.Rank)
	}
	f.say("%s left alone%s: %s (%s).", what, who, refused.Refused, filepath.Base(refused.Where))
	if what == "checkpointing" {
		f.plan.Checkpoint, f.limits.NoCheckpoint = false, true
	} else {
		f.plan.Split, f.limits.NoSplit = 1, true
	}
	if f.ahead != nil {
		f.startAsForeseen()
	}
}

// clear removes the record of the attempt before.
func (r *observedRun) clear() {
	paths, _ := filepath.Glob(filepath.Join(r.report, "rank*"))
	for _, path := range paths {
		os.Remove(path)
	}
}

// sayChanges says what was changed and what of it was seen to act, on every rank.
func (r *observedRun) sayChanges(plan attempt.Plan) {
	var acted []probenotes.Process
	for _, p := range r.collect() {
		if p.Fit != nil && (len(p.Fit.Applied) > 0 || (plan != attempt.Plan{Split: 1, Losses: plan.Losses} && p.Step > 0)) {
			acted = append(acted, p)
		}
	}
	if len(acted) == 0 {
		return
	}
	first := acted[0].Fit
	r.say("it ran with: %s.", plan.Changes(first.Batch))
	if len(acted) > 1 {
		r.say("seen in effect on %d ranks: %s.", len(acted), orNothing(onAll(acted)))
	} else {
		r.say("seen in effect: %s.", orNothing(first.Applied))
	}
	if first.BrokeOff && first.Split > 1 {
		r.say("the script left its loop by its own count: %d micro-batches were %d optimizer steps, not %d.", first.Micro, first.Steps, first.Micro)
	}
}

// onAll are the effects that every rank has seen.
func onAll(acted []probenotes.Process) []string {
	return slices.DeleteFunc(slices.Clone(acted[0].Fit.Applied), func(effect string) bool {
		return slices.ContainsFunc(acted, func(p probenotes.Process) bool { return !slices.Contains(p.Fit.Applied, effect) })
	})
}

func orNothing(applied []string) string {
	if len(applied) == 0 {
		return "nothing"
	}
	return strings.Join(applied, "; ")
}
