package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/internal/answer/explain"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/show/screen"
	"github.com/plimsoll/plimsoll/internal/show/textout"
)

type explainOptions struct {
	JSON    bool
	Exports []export
	Source  string // folder or file of the code that ran
}

func newExplainCommand(env Env) *cobra.Command {
	var o explainOptions
	cmd := &cobra.Command{
		Use:   "explain FILE... | -",
		Short: "explain why a run ran out of memory, and what to change",
		Long: `Explain reads what a failed training run left behind and shows on one screen how
much memory was requested and how much was free, what used it, the likely causes
with their evidence, and what to do. It needs no GPU and no Python, and never runs
code from a file.

FILE is a memory snapshot (torch.cuda.memory._dump_snapshot; pickle, JSON or the page
of _memory_viz.py; plain, .gz, .zst or .xz), a log, or a folder of them, one per rank.
Text that is piped in, or an error message in quotes, is read too.`,
		Example: `  plimsoll explain oom.pickle.gz
  python train.py 2>&1 | plimsoll explain
  plimsoll explain snapshots/            # every rank; the one that stands out is named
  plimsoll explain --json oom.pickle | jq .findings[0].id
  plimsoll explain --pprof peak.pb.gz oom.pickle && go tool pprof -http=: peak.pb.gz`,
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0 && env.StdinIsTerminal:
				fmt.Fprintln(env.Stderr, "plimsoll: paste the error message, then press Ctrl-D on an empty line (or name a file: plimsoll explain oom.pickle)")
				args = []string{"-"}
			case len(args) == 0:
				env.Stdin, args = pipedArg(env)
			}
			if len(args) == 0 {
				return usageError("nothing to explain: name a file or pipe one in\n%s", readable)
			}
			return runExplain(env, o, args)
		},
	}
	cmd.Flags().BoolVar(&o.JSON, "json", false, "print the report as JSON ("+report.ExplainSchema+")")
	o.Exports = exportFlags(cmd.Flags())
	cmd.Flags().StringVar(&o.Source, "source", "", "the code that ran: lint findings on the lines involved are shown with the cause")
	return cmd
}

// readable says what explain can read, and how to get it.
const readable = `explain reads:
  the error text, or a log that contains it    python train.py 2>&1 | plimsoll explain
  a snapshot of PyTorch's allocator            plimsoll run -- python train.py writes one when memory runs out`

func runExplain(env Env, o explainOptions, args []string) error {
	all, err := readEvidence(env, args)
	if err != nil {
		return err
	}
	if done, err := exportEvidence(env, o.Exports, all); done || err != nil {
		return err
	}
	stop := progress(env, func() string { return "looking for causes" })
	r := explain.Build(all)
	stop()
	if o.Source != "" {
		if err := nameInSource(r.Findings, o.Source); err != nil {
			return err
		}
	}
	if len(r.Devices) == 0 && r.Message == nil {
		return unreadable(fmt.Errorf("%w\n%s", nothingIn(all), readable))
	}
	r.Next = afterExplanation(r, args)
	if o.JSON {
		err = printJSON(env.Stdout, r)
	} else {
		s := screen.New(env.Stdout, env.Style)
		textout.Explain(s, r)
		err = s.Err()
	}
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if slices.ContainsFunc(r.Inputs, func(in report.Input) bool { return in.Kind == "unreadable" }) {
		return unreadable(errors.New("some files were skipped"))
	}
	if slices.ContainsFunc(r.Findings, func(f report.Finding) bool { return f.Severity == report.Error }) {
		return findingExit()
	}
	return nil
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(screen.JSON(w))
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	return e.Encode(v)
}
