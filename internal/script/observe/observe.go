// Package observe runs a command with the probe in its Python processes and collects what they noted.
//
// In go a command line with its environment and streams, and a folder for the record; out come how it ended, the notes of its processes, and
// the verdict on them. The command's output and exit code are its own; a command that cannot be observed is still run.
package observe

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/plimsoll/plimsoll/internal/evidence/probenotes"
	"github.com/plimsoll/plimsoll/internal/script/attempt"
	"github.com/plimsoll/plimsoll/internal/script/probe"
	"github.com/plimsoll/plimsoll/internal/script/runner"
)

// Request is a command to observe.
type Request struct {
	Args   []string // the program and its arguments
	Env    []string // the whole environment it would have had
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Report string            // folder to keep the record in; empty: it is kept only when memory ended the run
	Record probe.Record      // which allocations carry stacks
	Say    func(line string) // tells the person something while the run goes on
}

// Run is one command under observation: where its probe lies and where its record goes.
type Run struct {
	Request
	folder string // temporary: the probe, and the report when nobody asked to keep it
	report string
	keep   bool
}

// Open prepares the record. An error means that the command can only be run unobserved (Bare).
func Open(q Request) (*Run, error) {
	folder, err := os.MkdirTemp("", "plimsoll-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the probe: %w", err)
	}
	r := &Run{Request: q, folder: folder, report: filepath.Join(folder, "report")}
	if q.Report != "" {
		r.report, err = filepath.Abs(q.Report)
	}
	if err == nil {
		err = os.MkdirAll(r.report, 0o755)
	}
	if err == nil {
		err = writable(r.report)
	}
	if err == nil {
		err = probe.Install(filepath.Join(folder, "probe"))
	}
	if err != nil {
		os.RemoveAll(folder)
		return nil, fmt.Errorf("prepare the record: %w", err)
	}
	return r, nil
}

// Bare runs the command unobserved.
func Bare(q Request) (runner.Outcome, error) { return runner.Run(q.command(q.Env)) }

func (q Request) command(environ []string) runner.Command {
	return runner.Command{Args: q.Args, Env: environ, Stdin: q.Stdin, Stdout: q.Stdout, Stderr: q.Stderr}
}

// Variable is the value of a variable in the command's environment.
func (q Request) Variable(name string) string {
	value := ""
	for _, entry := range q.Env {
		if v, ok := strings.CutPrefix(entry, name+"="); ok {
			value = v
		}
	}
	return value
}

func writable(folder string) error {
	f, err := os.CreateTemp(folder, ".plimsoll-*")
	if err != nil {
		return err
	}
	f.Close()
	return os.Remove(f.Name())
}

// Close removes what need not be kept.
func (r *Run) Close() {
	if r.keep && r.Report == "" {
		os.RemoveAll(filepath.Join(r.folder, "probe"))
		return
	}
	os.RemoveAll(r.folder)
}

// Folder makes a folder for something that lasts as long as the run.
func (r *Run) Folder(name string) (string, error) {
	dir := filepath.Join(r.folder, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make a folder for the %s: %w", name, err)
	}
	return dir, nil
}

// Attempt runs the command once in fresh processes, with a plan of what to change, until it ends or stop is closed.
func (r *Run) Attempt(plan *attempt.Plan, stop <-chan struct{}) (runner.Outcome, error) {
	base, fit := r.Env, ""
	if plan != nil {
		fit = plan.JSON()
		base = append(base[:len(base):len(base)], plan.Variables(r.Variable)...)
	}
	command := r.command(probe.Environ(base, filepath.Join(r.folder, "probe"),
		probe.Settings{Mode: probe.Observe, Report: r.report, Record: r.Record, Fit: fit}))
	command.Stop = stop
	return runner.Run(command)
}

// Notes reads what every process of the run noted; what cannot be read is said and left out.
func (r *Run) Notes() []probenotes.Process {
	paths, _ := filepath.Glob(filepath.Join(r.report, "rank*.json"))
	var all []probenotes.Process
	for _, path := range paths {
		p, err := readNotes(path)
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			r.Say(fmt.Sprintf("%s: %v", filepath.Base(path), err))
		default:
			all = append(all, p)
		}
	}
	return all
}

func readNotes(path string) (probenotes.Process, error) {
	f, err := os.Open(path)
	if err != nil {
		return probenotes.Process{}, err
	}
	defer f.Close()
	return probenotes.Read(f)
}

// Clear removes the record of an attempt that is over.
func (r *Run) Clear() {
	paths, _ := filepath.Glob(filepath.Join(r.report, "rank*"))
	for _, path := range paths {
		os.Remove(path)
	}
}

// Gone tells whether a rank has said that it will not go on: the others may wait for it.
func (r *Run) Gone() bool {
	gone, _ := filepath.Glob(filepath.Join(r.report, "rank*.gone"))
	return len(gone) > 0
}
