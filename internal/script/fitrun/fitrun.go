// Package fitrun makes a command fit: it starts it with what a prediction calls for, and again after each failure that was out of memory.
//
// It takes an observed run, what may be changed and the cards of the machine and returns how the last attempt ended and under which plan. All ranks of a
// job run under the same plan: decisions fall here, before and between attempts, for all of them. A job that this machine cannot decide for
// alone is left as it is.
package fitrun

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/plimsoll/plimsoll/internal/evidence/probenotes"
	"github.com/plimsoll/plimsoll/internal/live/watch"
	"github.com/plimsoll/plimsoll/internal/script/attempt"
	"github.com/plimsoll/plimsoll/internal/script/forecast"
	"github.com/plimsoll/plimsoll/internal/script/observe"
	"github.com/plimsoll/plimsoll/internal/script/runner"
)

const (
	maxAttempts = 8  // bounds how often a command is started again
	refusedCode = 86 // exit code of a process that cannot honour its plan (_fit.py)
)

// Options are what a person asked for.
type Options struct {
	Numerics   bool // precision may change
	Split      int  // micro-batches per batch to start with; at least 1
	Parts      int  // parts of a batch that the model is called with; 0 and 1: it is called with all of it
	Checkpoint bool // start with activation checkpointing
	Losses     bool // note the loss of every whole batch
	Blind      bool // start without a prediction

	Cards    func() []watch.Card      // the GPUs of this machine; nil where there is no asking
	Progress func(what string) func() // shows what is being done until the returned function is called
}

// Result is how it went.
type Result struct {
	Outcome runner.Outcome
	Plan    attempt.Plan // of the last attempt
}

// Interrupted says that someone asked for the end before the command was started.
type Interrupted struct{ Signal syscall.Signal }

func (i Interrupted) Error() string { return fmt.Sprintf("ended by %s", i.Signal) }

// fitting is a command on its way to fit: the plan it runs under, what may not be planned, and what was foreseen of it.
type fitting struct {
	*observe.Run
	options Options
	plan    attempt.Plan
	limits  attempt.Limits
	ahead   *forecast.Question // nil: nothing was foreseen
}

// Run runs the command until it fits or nothing is left to change. An error means that it could not be started, or was Interrupted before.
func Run(r *observe.Run, o Options) (Result, error) {
	f := &fitting{Run: r, options: o, limits: attempt.Limits{Numerics: o.Numerics}}
	f.plan = attempt.Plan{Split: o.Split, Chunk: o.Parts, Checkpoint: o.Checkpoint, Losses: o.Losses}
	if why := beyondUs(r.Args, r.Variable); why != "" {
		f.say("left alone: %s.", why)
		f.limits = attempt.Limits{NoSplit: true, NoCheckpoint: true, Nothing: true}
		f.plan = attempt.Plan{Split: 1, Losses: o.Losses}
	} else if !o.Blind && o.Split == 1 && o.Parts <= 1 && !o.Checkpoint {
		var err error
		if f.ahead, err = f.foresee(); err != nil {
			return Result{}, err
		}
		if f.ahead != nil {
			f.startAsForeseen()
		}
	}
	var outcome runner.Outcome
	for range maxAttempts {
		var err error
		f.Clear()
		if outcome, err = f.attemptTogether(); err != nil {
			return Result{outcome, f.plan}, err
		}
		if !f.again(outcome, f.Notes()) {
			break
		}
	}
	return Result{outcome, f.plan}, nil
}

func (f *fitting) say(format string, args ...any) { f.Say(fmt.Sprintf(format, args...)) }

func (f *fitting) startAsForeseen() {
	f.plan = f.startWith(f.ahead, f.limits)
	f.plan.Losses = f.options.Losses
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
		f.say("the planned change cannot be made, and the reason could not be written down; starting again unchanged.")
		f.plan, f.limits.Nothing, f.ahead = attempt.Plan{Split: 1}, true, nil
		return true
	}
	dead := probenotes.Died(processes)
	if outcome.Code == 0 || len(dead) == 0 || f.limits.Nothing {
		return false
	}
	if !slices.ContainsFunc(dead, func(p probenotes.Process) bool { return p.Fit != nil }) {
		f.say("no change reaches the processes that ran out of memory, so starting again would not help.")
		return false
	}
	next, why, p, ok := attempt.NextOf(f.plan, dead, f.limits)
	if !ok {
		f.say("nothing is left to change that would make it fit.")
		return false
	}
	f.plan = next
	f.say("out of memory%s; %s. Starting again: %s.", onRank(p), why, next.Changes(p.Batch()))
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
	who := ""
	if by.WorldSize > 1 {
		who = fmt.Sprintf(" on all %d ranks, for rank %d", by.WorldSize, by.Rank)
	}
	f.say("%s left alone%s: %s (%s).", refused.Part.Name(), who, refused.Refused, filepath.Base(refused.Where))
	switch refused.Part {
	case probenotes.PartCheckpoint:
		f.plan.Checkpoint, f.limits.NoCheckpoint = false, true
	case probenotes.PartChunk:
		f.plan.Chunk, f.limits.NoChunk = 0, true
	default:
		f.plan.Split, f.limits.NoSplit = 1, true
	}
	if f.ahead != nil {
		f.startAsForeseen()
	}
}

const (
	lookEvery = 500 * time.Millisecond
	rankGrace = 5 * time.Second // what a launcher is given to notice that one of its ranks is gone
)

// attemptTogether runs the command once. When one rank of a job has run out of memory, or cannot honour the plan, and the launcher lets the others wait
// for it, the whole launch is ended: ranks in a collective wait for the dead one until a timeout of minutes or for ever.
func (f *fitting) attemptTogether() (runner.Outcome, error) {
	stop, done := make(chan struct{}), make(chan struct{})
	defer close(done)
	go func() {
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		var since time.Time
		for {
			select {
			case <-done:
				return
			case now := <-tick.C:
				if !f.Gone() {
					continue
				}
				if since.IsZero() {
					since = now
				}
				if now.Sub(since) > rankGrace {
					close(stop)
					return
				}
			}
		}
	}()
	return f.Attempt(&f.plan, stop)
}

// Changes says what was changed and what of it was seen to act, on every rank.
func Changes(plan attempt.Plan, notes []probenotes.Process) []string {
	var acted []probenotes.Process
	for _, p := range notes {
		if p.Fit != nil && (len(p.Fit.Applied) > 0 || (plan != attempt.Plan{Split: 1, Losses: plan.Losses} && p.Step > 0)) {
			acted = append(acted, p)
		}
	}
	if len(acted) == 0 {
		return nil
	}
	first := acted[0].Fit
	lines := []string{fmt.Sprintf("it ran with: %s.", plan.Changes(first.Batch))}
	if len(acted) > 1 {
		lines = append(lines, fmt.Sprintf("seen in effect on %d ranks: %s.", len(acted), orNothing(onAll(acted))))
	} else {
		lines = append(lines, fmt.Sprintf("seen in effect: %s.", orNothing(first.Applied)))
	}
	if first.BrokeOff && first.Split > 1 {
		lines = append(lines, fmt.Sprintf("the script ended its loop by its own count: %d micro-batches were %d optimizer steps, not %d.", first.Micro, first.Steps, first.Micro))
	}
	return lines
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
