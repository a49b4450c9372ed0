package cli

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/live/doctor"
	"github.com/plimsoll/plimsoll/internal/live/machine"
	"github.com/plimsoll/plimsoll/internal/show/screen"
	"github.com/plimsoll/plimsoll/internal/show/textout"
)

type doctorOptions struct {
	json    bool
	measure bool // workspaces of cuDNN
	minutes float64
	out     string
	python  string
}

func newDoctorCommand(env Env) *cobra.Command {
	var opts doctorOptions
	cmd := &cobra.Command{
		Use:   "doctor [--json]",
		Short: "check this machine for memory problems, with fixes",
		Long: `Doctor looks once at the driver, the cards, the processes on them, the PyTorch
on the path, host memory, /dev/shm and the variables that configure PyTorch's
allocator, and reports what is wrong with the fix for each. It changes nothing
and needs no GPU; run it in the shell and environment you train in.

With --measure-workspaces it runs a Python script on the card instead, for ten minutes:
the script measures what cuDNN takes for convolutions and recurrent layers there, for
cards that Plimsoll has no measurements of. predict --workspaces reads the result.

Exit codes: 0 nothing wrong, 3 something is.`,
		Example: `  plimsoll doctor
  plimsoll doctor --json | jq '.findings[].title'
  plimsoll doctor --measure-workspaces --out rtx3060.jsonl.gz`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if opts.measure {
				return measureWorkspaces(cmd.Context(), env, opts)
			}
			return runDoctor(cmd.Context(), env, opts)
		},
	}
	cmd.Flags().BoolVar(&opts.json, "json", false, "print JSON")
	cmd.Flags().BoolVar(&opts.measure, "measure-workspaces", false, "measure what cuDNN takes on this machine's card, and write it to --out")
	cmd.Flags().Float64Var(&opts.minutes, "minutes", 10, "with --measure-workspaces: how long to measure")
	cmd.Flags().StringVar(&opts.out, "out", "workspaces.jsonl.gz", "with --measure-workspaces: file for the rows; the table is written beside it")
	cmd.Flags().StringVar(&opts.python, "python", "", "with --measure-workspaces: Python with torch (default: a virtual environment's, else python3)")
	return cmd
}

func runDoctor(ctx context.Context, env Env, opts doctorOptions) error {
	found := doctor.Examine(machine.Here().Facts(ctx))
	if err := printDoctor(env, opts, found); err != nil {
		return err
	}
	for _, f := range found.Findings {
		if f.Severity == report.Error {
			return findingExit()
		}
	}
	return nil
}

func printDoctor(env Env, opts doctorOptions, d report.Doctor) error {
	if opts.json {
		e := json.NewEncoder(screen.JSON(env.Stdout))
		e.SetIndent("", "  ")
		return e.Encode(d)
	}
	s := screen.New(env.Stdout, env.Style)
	textout.Doctor(s, &d)
	return s.Err()
}
