// Package cli is the command line of plimsoll.
//
// It takes arguments and an Env (the outside world: streams, environment, terminal facts) and returns an exit code,
// data on stdout and talk on stderr. A command is a constructor, an options struct and a run function; it reads its files,
// calls the pure packages and hands their values to a renderer. No command computes or formats numbers itself.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/internal/live/machine"
	"github.com/plimsoll/plimsoll/internal/live/watch"
	"github.com/plimsoll/plimsoll/internal/show/screen"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Exit codes, the same for every command.
const (
	exitOK         = 0 // fine, or it fits
	exitFailure    = 1 // the tool itself failed
	exitUsage      = 2 // the command line was wrong
	exitFinding    = 3 // a finding of severity error, or it does not fit
	exitUnreadable = 4 // the input could not be read
)

// Env is the outside world as commands see it.
type Env struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Getenv func(string) string
	// Environ is the whole environment, for commands that start others.
	Environ func() []string
	// Style is how text on stdout may look.
	Style screen.Style
	// StdinIsTerminal, StdoutIsTerminal and StderrIsTerminal say whether a person waits there.
	StdinIsTerminal, StdoutIsTerminal, StderrIsTerminal bool
	// Cards reads the GPUs of this machine; nil where there is no asking.
	Cards func() []watch.Card
	// Driver connects to the driver of this machine's cards; nil where there is no asking.
	Driver func() (source watch.Source, close func())
	// Helper is the command line that starts this program as a helper of itself; empty where it cannot be.
	Helper []string
	// Browse opens a file in the person's browser; nil where there is none to open.
	Browse func(file string) error
	// Memory is what the machine has for this program; nil where there is no asking.
	Memory func() units.Bytes

	limits *limits // of what reading an input may cost; set by Run
}

// environ is the environment; empty where there is none to ask.
func (e Env) environ() []string {
	if e.Environ == nil {
		return nil
	}
	return e.Environ()
}

// OS is the real world.
func OS() Env {
	return Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Environ: os.Environ,
		Style:           terminalStyle(os.Stdout, os.Getenv),
		StdinIsTerminal: isTerminal(os.Stdin), StdoutIsTerminal: isTerminal(os.Stdout), StderrIsTerminal: isTerminal(os.Stderr),
		Cards:  func() []watch.Card { return cardsHere(os.Getenv) },
		Driver: func() (watch.Source, func()) { return driverHere(os.Getenv) },
		Helper: helperHere(),
		Browse: browse,
		Memory: func() units.Bytes { return machine.Here().Memory() },
	}
}

// helperHere is how to start this very program again, whatever its file is called by now.
func helperHere() []string {
	path, err := os.Executable()
	if err != nil {
		return nil
	}
	return []string{path, "helper"}
}

// coded is an error that knows its exit code. A nil cause exits silently: the screen has said it already.
type coded struct {
	code  int
	cause error
}

func (e coded) Error() string {
	if e.cause == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.cause.Error()
}

func (e coded) Unwrap() error { return e.cause }

func usageError(format string, args ...any) error {
	return coded{exitUsage, fmt.Errorf(format, args...)}
}
func unreadable(err error) error { return coded{exitUnreadable, err} }
func findingExit() error         { return coded{code: exitFinding} }

// Run executes one command line and returns the exit code.
func Run(ctx context.Context, env Env, args []string) (code int) {
	var bundle string
	defer func() {
		if problem := recover(); problem != nil {
			crashed(env, bundle, args, problem, debug.Stack())
			code = exitFailure
		}
	}()
	env.limits = &limits{}
	root := newRootCommand(env)
	limitFlag(root.PersistentFlags(), env.limits)
	root.PersistentFlags().StringVar(&bundle, "bundle", "", "if plimsoll crashes, write the report and the input, with names scrubbed, to this file (.tar.gz)")
	root.PersistentPreRun = func(*cobra.Command, []string) {
		if env.Memory != nil {
			env.limits.fitMachine(env.Memory())
		}
	}
	root.SetArgs(append([]string{}, args...)) // of nil cobra would make the arguments of the process
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	var c coded
	if !errors.As(err, &c) {
		c = coded{exitFailure, err}
	}
	if c.cause != nil {
		fmt.Fprintf(env.Stderr, "plimsoll: %s\n", screen.CleanLines(plainText(c.cause)))
	}
	return c.code
}

// crashed turns a bug in this program into a report that a person can send.
func crashed(env Env, bundle string, args []string, problem any, stack []byte) {
	what, command := screen.Clean(fmt.Sprint(problem)), screen.Clean(strings.Join(args, " "))
	report := func(what, command string) string {
		return fmt.Sprintf("plimsoll: this is a bug in plimsoll, not in your job: %s\nplimsoll: version %s, %s/%s, command: plimsoll %s\n%s", what, Version, runtime.GOOS, runtime.GOARCH, command, stack)
	}
	fmt.Fprint(env.Stderr, report(what, command))
	if bundle == "" {
		fmt.Fprintln(env.Stderr, "plimsoll: please report it with the lines above. The same command with --bundle bug.tar.gz writes them into a file, with the input, names and paths scrubbed.")
		return
	}
	if err := writeBundle(bundle, report(string(scrubText([]byte(what))), string(scrubText([]byte(command)))), args); err != nil {
		fmt.Fprintf(env.Stderr, "plimsoll: the bundle could not be written: %v\n", err)
		return
	}
	fmt.Fprintf(env.Stderr, "plimsoll: wrote %s: the report and the input, names and paths scrubbed. Check what is in it, then attach it to an issue.\n", screen.Clean(bundle))
}

func newRootCommand(env Env) *cobra.Command {
	root := &cobra.Command{
		Use:   "plimsoll",
		Short: "find out why PyTorch ran out of GPU memory, whether a job fits, and how to make it fit",
		Long: `Plimsoll tells you why a PyTorch job ran out of GPU memory, whether a training job
fits on a card, and what to change so that it does.

Exit codes: 0 success, or it fits; 1 plimsoll failed; 2 wrong usage; 3 it does not
fit, or a problem was found; 4 the input cannot be read.`,
		Version:       Version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				_, err := io.WriteString(env.Stdout, firstContact)
				return err
			}
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				return usageError("unknown command %q; did you mean %s?", args[0], strings.Join(near, " or "))
			}
			if hint := meantByFile(args[0]); hint != "" {
				return usageError("unknown command %q; did you mean: %s", args[0], hint)
			}
			return usageError("unknown command %q (see plimsoll --help)", args[0])
		},
		SuggestionsMinimumDistance: 2,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError("%s (see plimsoll %s --help)", flagProblem(cmd, err), cmd.Name())
	})
	root.SetGlobalNormalizationFunc(spelled)
	root.AddCommand(commands(env)...)
	for _, c := range root.Commands() {
		wrapArgs(c)
		completeValues(c)
	}
	return root
}

// commands lists every verb.
func commands(env Env) []*cobra.Command {
	return []*cobra.Command{
		newExplainCommand(env),
		newDiffCommand(env),
		newLintCommand(env),
		newPredictCommand(env),
		newFitCommand(env),
		newReplayCommand(env),
		newViewCommand(env),
		newWatchCommand(env),
		newMetricsCommand(env),
		newDoctorCommand(env),
		newRunCommand(env),
		newMCPCommand(env),
		newVersionCommand(env),
		newHelperCommand(),
	}
}

// wrapArgs turns cobra's complaints about arguments into usage errors.
func wrapArgs(c *cobra.Command) {
	check := c.Args
	if check == nil {
		return
	}
	c.Args = func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		var told coded
		if err == nil || errors.As(err, &told) {
			return err
		}
		return usageError("plimsoll %s takes no arguments, but got %q (see plimsoll %[1]s --help)", cmd.Name(), strings.Join(args, " "))
	}
}

// Command is the whole command line, for those who write its manual.
func Command() *cobra.Command { return newRootCommand(Env{}) }
