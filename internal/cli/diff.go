package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/internal/answer/compare"
	"github.com/plimsoll/plimsoll/internal/answer/explain"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/show/screen"
	"github.com/plimsoll/plimsoll/internal/show/textout"
)

type diffOptions struct{ JSON, Markdown bool }

func newDiffCommand(env Env) *cobra.Command {
	var o diffOptions
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "compare the memory of two runs",
		Long: `Diff compares two memory snapshots, or two directories of them, at their peaks: what
grew and what shrank, by category and by line of your code.

It also compares two predictions (plimsoll predict --json > base.json), for example of
two branches; with --markdown as a comment for a pull request. Exit code 3: the second
one does not fit.`,
		Example: `  plimsoll diff before.pickle.gz after.pickle.gz
  plimsoll diff --markdown base.json head.json
  plimsoll diff --json monday/ tuesday/`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usageError("diff compares two snapshots or folders of them: plimsoll diff before.pickle after.pickle")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return runDiff(env, o, args[0], args[1]) },
	}
	cmd.Flags().BoolVar(&o.JSON, "json", false, "print the comparison as JSON ("+report.DiffSchema+")")
	cmd.Flags().BoolVar(&o.Markdown, "markdown", false, "print two predictions compared as Markdown")
	return cmd
}

func runDiff(env Env, o diffOptions, before, after string) error {
	if done, err := diffPredictions(env, o, before, after); done {
		return err
	}
	if o.Markdown {
		return usageError("--markdown is for two predictions (plimsoll predict --json)")
	}
	var sides [2][]explain.Evidence
	for i, name := range []string{before, after} {
		all, err := readEvidence(env, []string{name})
		if err != nil {
			return err
		}
		sides[i] = all
	}
	stop := progress(env, func() string { return "comparing the two peaks" })
	a, b := highest(sides[0]), highest(sides[1])
	stop()
	for i, c := range []bool{a != nil, b != nil} {
		if !c {
			return unreadable(fmt.Errorf("%s contains no memory snapshot", []string{before, after}[i]))
		}
	}
	d := compare.Timelines(a.Timeline, b.Timeline)
	d.Before.Input, d.After.Input = a.Input, b.Input
	if o.JSON {
		return printJSON(env.Stdout, d)
	}
	s := screen.New(env.Stdout, env.Style)
	textout.Diff(s, d)
	return s.Err()
}
