// Package cli is the command line of plimsoll.
//
// In go arguments and an Env (the outside world: streams, environment, terminal facts); out come an exit code,
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
	"github.com/spf13/pflag"

	"github.com/plimsoll/plimsoll/internal/live/machine"
	"github.com/plimsoll/plimsoll/internal/live/watch"
	"github.com/plimsoll/plimsoll/internal/show/screen"
	"github.com/plimsoll/plimsoll/internal/spelling"
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
	root.SetArgs(args)
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
		fmt.Fprintf(env.Stderr, "plimsoll: %s\n", screen.CleanLines(c.cause.Error()))
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
	fmt.Fprintf(env.Stderr, "plimsoll: wrote %s: the report and the input, names and paths scrubbed. Please look into it and attach it to an issue.\n", screen.Clean(bundle))
}

func newRootCommand(env Env) *cobra.Command {
	root := &cobra.Command{
		Use:   "plimsoll",
		Short: "whether a PyTorch job fits on a GPU, why it ran out of memory, how to make it fit",
		Long: `Plimsoll shows how much a GPU can carry: whether a PyTorch training job fits,
why it ran out of memory, and what to change.

Exit codes: 0 fine, it fits · 1 the tool failed · 2 usage · 3 a finding of
severity error, or it does not fit · 4 input unreadable.`,
		Version:       Version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				return usageError("unknown command %q; did you mean %s?", args[0], strings.Join(near, " or "))
			}
			return usageError("unknown command %q (see plimsoll --help)", args[0])
		},
		SuggestionsMinimumDistance: 2,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError("%w%s (see plimsoll %s --help)", err, nearFlag(cmd, err), cmd.Name())
	})
	root.AddCommand(commands(env)...)
	for _, c := range root.Commands() {
		wrapArgs(c)
	}
	return root
}

// nearFlag names the flag that was probably meant by one that does not exist.
func nearFlag(cmd *cobra.Command, err error) string {
	wrong, unknown := strings.CutPrefix(err.Error(), "unknown flag: --")
	if !unknown {
		return ""
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := spelling.Nearest(wrong, names); near != "" {
		return "; did you mean --" + near + "?"
	}
	return ""
}

// Version is set when a release is built.
var Version = "dev"

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
		if err := check(cmd, args); err != nil {
			return usageError("%w (see plimsoll %s --help)", err, cmd.Name())
		}
		return nil
	}
}
