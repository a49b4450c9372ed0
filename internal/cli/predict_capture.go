package cli

import (
	"errors"
	"fmt"
	"os"

	"github.com/plimsoll/plimsoll/internal/script/capture"
)

// captureInto runs a training command as far as its first step and makes the job it was about to do the one to predict. The
// command's own output goes to stderr: stdout carries the prediction.
func (o *predictOptions) captureInto(env Env, args []string) (forget func(), err error) {
	if o.JobFile != "" || o.Jobs != "" || o.ConfigFile != "" || o.Graph != "" {
		return nil, usageError("a command and --config, --graph, --job or --jobs: which one is the job?")
	}
	forget = func() {}
	dir := o.Capture
	if dir == "" {
		if dir, err = os.MkdirTemp("", "plimsoll-"); err != nil {
			return nil, fmt.Errorf("make a folder for the capture: %w", err)
		}
		forget = func() { os.RemoveAll(dir) }
	} else if err = os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make a folder for the capture: %w", err)
	}
	o.JobFile, err = capture.Run(capture.Request{Args: args, Env: env.Environ(), Dir: dir, Stdin: env.Stdin, Stdout: env.Stderr, Stderr: env.Stderr})
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
