package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/model/traced"
	"github.com/plimsoll/plimsoll/internal/script/capture"
)

// predictScript predicts a training command: its first step operator by operator, and what it does after that from a trace. A script whose step cannot be
// captured is answered from the trace alone.
func (o *predictOptions) predictScript(env Env, cmd *cobra.Command, args []string) error {
	since := time.Now()
	forget, failed := o.captureInto(env, args)
	if failed == nil {
		defer forget()
	}
	if o.WholeRun {
		if failed != nil {
			return failed
		}
		return o.predictOwnRun(env, cmd)
	}
	var why capture.Failed
	if failed != nil && !errors.As(failed, &why) || o.Follow == 0 || o.changed(cmd) {
		if failed != nil {
			return failed
		}
		return runPredict(env, cmd, *o)
	}
	t, err := follow(env, args, since, max(o.Follow-time.Since(since), o.Follow/2))
	var interrupted capture.Interrupted
	switch {
	case errors.As(err, &interrupted):
		return coded{128 + int(interrupted.Outcome.Asked), err}
	case failed == nil:
		if err == nil && t.Followed() {
			o.trace, o.script = t, scriptName(args)
		} else {
			o.unfollowed = unfollowed(t, err)
			if err == nil && begun(t) {
				o.begun, o.script = t, scriptName(args)
			}
		}
		return runPredict(env, cmd, *o)
	case err != nil && (why.Late || late(err)):
		return unreadable(fmt.Errorf("%w; --follow %s waits longer", why, 5*o.Follow))
	case err != nil:
		return failed
	case !t.Followed() && !begun(t):
		return unreadable(notFollowed(t, why, o.Follow))
	}
	m, err := o.machine()
	if err != nil {
		return err
	}
	o.trace, o.script = t, scriptName(args)
	return o.printFollowed(env, cmd, m, why)
}

// begun tells whether a trace that saw no whole step is an answer all the same: the script had something on the card when the time was over.
func begun(t *traced.Trace) bool { return t.Ended == traced.AtLimit && t.Held() }

// unfollowed says that a script is known up to its first step only, and why.
func unfollowed(t *traced.Trace, err error) string {
	why := "no step was seen in it"
	switch {
	case err != nil:
		why = err.Error()
	case t.Ended == traced.Failed:
		why = fmt.Sprintf("%s:%d: %s", filepath.Base(t.File), t.Line, t.Why)
	case t.Ended == traced.AtLimit:
		why = "the time was over before its first step (--follow 10m waits longer)"
	}
	return "what the script does after its first step is not known; following it on tensors without data ended: " + why
}

// withoutStep answers where the captured step of a command is not predicted: from its trace, or with the reasons why there is neither.
func (o *predictOptions) withoutStep(env Env, cmd *cobra.Command, m predict.Machine, err error) error {
	if o.trace == nil {
		o.trace = o.begun
	}
	switch {
	case o.trace != nil:
		return o.printFollowed(env, cmd, m, fmt.Errorf("the captured step: %w", err))
	case o.unfollowed != "":
		both := coded{exitUnreadable, nil}
		errors.As(err, &both)
		both.cause = fmt.Errorf("the captured step is not predicted: %s; %s", o.brief(err), o.unfollowed)
		return both
	}
	return err
}

// late tells whether a script was not followed because time ran out.
func late(err error) bool {
	var f capture.Failed
	return errors.As(err, &f) && f.Late
}

// printFollowed answers from the trace of a script alone, with the reason why its step is not known operator by operator.
func (o *predictOptions) printFollowed(env Env, cmd *cobra.Command, m predict.Machine, why error) error {
	res, err := predict.Followed(o.trace, o.script, m)
	if err != nil {
		return err
	}
	res.Report.Assumptions = append(res.Report.Assumptions, "only this batch size is known: "+o.brief(why))
	return o.print(env, cmd, res.Report)
}

// brief is why there is no captured step, without the name of a file that is gone by now and without a list of what would have been known.
func (o *predictOptions) brief(why error) string {
	text, _, _ := strings.Cut(why.Error(), " (known: ")
	if o.JobFile == "" {
		return text
	}
	return strings.ReplaceAll(text, o.JobFile+": ", "")
}

// notFollowed says why there is no answer from either way of looking at a script.
func notFollowed(t *traced.Trace, why capture.Failed, limit time.Duration) error {
	switch t.Ended {
	case traced.AtLimit:
		return fmt.Errorf("no training step was reached within %s (the script was at %s:%d); --follow %s waits longer", limit, filepath.Base(t.File), t.Line, 5*limit)
	case traced.Failed:
		return fmt.Errorf("%w; following the script on tensors without data ended at %s:%d: %s", why, filepath.Base(t.File), t.Line, t.Why)
	}
	return why
}

// changed tells whether a flag asks for another job than the script's own, which a trace cannot answer.
func (o *predictOptions) changed(cmd *cobra.Command) bool {
	other := false
	cmd.Flags().Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "gpu", "memory", "torch", "conf", "json", "capture", "follow", "timeline":
		default:
			other = true
		}
	})
	return other
}

// follow runs a command through all it does, on tensors without data, for at most the given time; it was captured since.
func follow(env Env, args []string, since time.Time, limit time.Duration) (*traced.Trace, error) {
	dir, err := os.MkdirTemp("", "plimsoll-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the trace: %w", err)
	}
	defer os.RemoveAll(dir)
	begun := time.Now()
	stop := progress(env, func() string {
		return fmt.Sprintf("following the script past its first step: %s of at most %s", time.Since(begun).Round(time.Second), limit.Round(time.Second))
	})
	defer stop()
	return capture.Trace(capture.Request{Args: args, Env: env.Environ(), Dir: dir, Stdin: env.Stdin, Stdout: io.Discard, Stderr: io.Discard, Since: since}, limit)
}

// scriptName is the file of a command that looks like a script.
func scriptName(args []string) string {
	for _, a := range args {
		if strings.HasSuffix(a, ".py") {
			return filepath.Base(a)
		}
	}
	return filepath.Base(args[0])
}

// captureInto runs a training command as far as its first step and makes the job it was about to do the one to predict. The
// command's own output goes to stderr: stdout carries the prediction.
func (o *predictOptions) captureInto(env Env, args []string) (forget func(), err error) {
	if o.Jobs != "" {
		return nil, oneModel()
	}
	return o.jobFlags.capture(env, capture.Request{Args: args, Dir: o.Capture, Limit: o.Follow, Whole: o.WholeRun, Epochs: o.Epochs})
}

func oneModel() error {
	return usageError("give either a command after -- or a model with --config, --graph, --job or --jobs, not both")
}

// capture makes the job of a command the one that is asked about. Where no folder is named, forget removes what was written.
func (f *jobFlags) capture(env Env, q capture.Request) (forget func(), err error) {
	if f.JobFile != "" || f.ConfigFile != "" || f.Graph != "" {
		return nil, oneModel()
	}
	forget = func() {}
	if q.Dir == "" {
		if q.Dir, err = os.MkdirTemp("", "plimsoll-"); err != nil {
			return nil, fmt.Errorf("make a folder for the capture: %w", err)
		}
		forget = func() { os.RemoveAll(q.Dir) }
	} else if err = os.MkdirAll(q.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("make a folder for the capture: %w", err)
	}
	q.Env, q.Stdin, q.Stdout, q.Stderr = env.Environ(), env.Stdin, env.Stderr, env.Stderr
	f.JobFile, err = capture.Run(q)
	if err == nil {
		return forget, nil
	}
	forget()
	var interrupted capture.Interrupted
	if errors.As(err, &interrupted) {
		return nil, coded{128 + int(interrupted.Outcome.Asked), err}
	}
	var failed capture.Failed
	if errors.As(err, &failed) {
		return nil, unreadable(err)
	}
	return nil, err
}
