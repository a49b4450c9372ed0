package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/internal/answer/plan"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/script/capture"
	"github.com/plimsoll/plimsoll/internal/script/fitrun"
)

// captureLimit is how long a script may take to its first step.
const captureLimit = 2 * time.Minute

// fitScript searches for the job that a training command is about to do.
func (o *fitOptions) fitScript(env Env, cmd *cobra.Command, args []string, before int) error {
	switch {
	case before != 0:
		return usageError("give either a model (%s) or a command after --, not both", args[0])
	case len(args) == 0:
		return usageError("no command after --: plimsoll fit -- python train.py")
	}
	forget, err := o.capture(env, capture.Request{Args: args, Limit: captureLimit})
	if err != nil {
		return err
	}
	defer forget()
	o.command = args
	return runFit(env, cmd, *o)
}

// inScript says the first plan in the words of the script that was captured. The file that holds its job is gone by then: no further command names it.
func (o *fitOptions) inScript(r plan.Request, fit *report.Fit) {
	if o.command == nil {
		return
	}
	fit.Next = nil
	if !plan.AnyFits(fit) {
		return
	}
	from := r.Job.Setup()
	from.Conf = r.Conf
	change := fitrun.ChangeOf(o.command, from, fit.Plans[0].Setup, r.Source.Config != nil)
	if change.Code == nil {
		change.Code = []string{}
	}
	fit.Script = &report.ScriptChange{Command: change.Command, Code: change.Code}
}
