package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/internal/attempt"
	"github.com/plimsoll/plimsoll/internal/notes"
	"github.com/plimsoll/plimsoll/internal/runner"
)

// maxAttempts bounds how often a command is started anew.
const maxAttempts = 8

type fitRunOptions struct {
	on         bool
	allow      []string
	split      int
	checkpoint bool
	losses     bool
}

func (o *fitRunOptions) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.on, "fit", false, "make it fit: after an out-of-memory start anew with micro-batches, checkpointing, …")
	cmd.Flags().StringSliceVar(&o.allow, "allow", nil, "with --fit: numerics permits changes of precision")
	cmd.Flags().IntVar(&o.split, "split", 1, "with --fit: start with so many micro-batches a batch")
	cmd.Flags().BoolVar(&o.checkpoint, "checkpoint", false, "with --fit: start with activation checkpointing")
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
	if !o.on && (o.split > 1 || o.checkpoint || len(o.allow) > 0) {
		return usageError("--split, --checkpoint and --allow go with --fit")
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

// runToFit starts the command, anew after each failure for want of memory, until it runs or nothing is left to change. All ranks
// of a job run under the same plan: the decision falls here, between attempts, for all of them.
func (r *observedRun) runToFit(args []string) error {
	o := r.opts.fit
	plan := attempt.Plan{Split: max(o.split, 1), Checkpoint: o.checkpoint, Losses: o.losses}
	limits := attempt.Limits{Numerics: len(o.allow) > 0}
	var outcome runner.Outcome
	var err error
	for n := 1; n <= maxAttempts; n++ {
		r.clear()
		outcome, err = r.attempt(args, plan.JSON())
		if err != nil {
			return exitWith(outcome, err)
		}
		processes := r.collect()
		next, ok := r.decide(plan, &limits, outcome, processes)
		if !ok {
			break
		}
		plan = next
	}
	r.conclude(outcome, args)
	if outcome.Code == 0 {
		r.sayChanges(plan)
	}
	return exitWith(outcome, nil)
}

// decide gives the plan of the next attempt; false when this one was the last.
func (r *observedRun) decide(plan attempt.Plan, limits *attempt.Limits, outcome runner.Outcome, processes []notes.Process) (attempt.Plan, bool) {
	if refused, ok := refusal(processes); ok {
		return r.withoutRefused(plan, limits, refused), true
	}
	dead := notes.Died(processes)
	if outcome.Code == 0 || len(dead) == 0 {
		return plan, false
	}
	next, why, ok := attempt.Next(plan, dead[0], *limits)
	if !ok {
		r.say("nothing is left to change that would make it fit.")
		return plan, false
	}
	r.say("out of memory; %s. Starting anew: %s.", why, next.Changes(dead[0].Batch()))
	return next, true
}

func refusal(processes []notes.Process) (notes.Fit, bool) {
	for _, p := range processes {
		if p.Fit != nil && p.Fit.Refused != "" {
			return *p.Fit, true
		}
	}
	return notes.Fit{}, false
}

// withoutRefused takes out of the plan what the script cannot honour and says so.
func (r *observedRun) withoutRefused(plan attempt.Plan, limits *attempt.Limits, refused notes.Fit) attempt.Plan {
	what := "micro-batches"
	if strings.Contains(refused.Refused, "to checkpoint") {
		what = "checkpointing"
	}
	r.say("%s left alone: %s (%s).", what, refused.Refused, filepath.Base(refused.Where))
	if what == "checkpointing" {
		plan.Checkpoint, limits.NoCheckpoint = false, true
	} else {
		plan.Split, limits.NoSplit = 1, true
	}
	return plan
}

// clear removes the record of the attempt before.
func (r *observedRun) clear() {
	paths, _ := filepath.Glob(filepath.Join(r.report, "rank*"))
	for _, path := range paths {
		os.Remove(path)
	}
}

// sayChanges says what was changed and what of it was seen to act.
func (r *observedRun) sayChanges(plan attempt.Plan) {
	for _, p := range r.collect() {
		if p.Fit == nil || (len(p.Fit.Applied) == 0 && plan == (attempt.Plan{Split: 1, Losses: plan.Losses})) {
			continue
		}
		r.say("it ran with: %s.", plan.Changes(p.Fit.Batch))
		r.say("seen in effect: %s.", orNothing(p.Fit.Applied))
		if p.Fit.BrokeOff && p.Fit.Split > 1 {
			r.say("the script left its loop by its own count: %d micro-batches were %d optimizer steps, not %d.",
				p.Fit.Micro, p.Fit.Steps, p.Fit.Micro)
		}
		return
	}
}

func orNothing(applied []string) string {
	if len(applied) == 0 {
		return "nothing"
	}
	return fmt.Sprint(strings.Join(applied, "; "))
}
