// Package observe runs a command with the probe in its Python processes and collects what they noted.
//
// It takes a command line with its environment and streams, and a folder for the record and returns how it ended, the notes of its processes, and
// the verdict on them. The command's output and exit code are its own; a command that cannot be observed is still run.
package observe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/term"

	"github.com/plimsoll/plimsoll/internal/evidence/probenotes"
	"github.com/plimsoll/plimsoll/internal/live/watch"
	"github.com/plimsoll/plimsoll/internal/script/attempt"
	"github.com/plimsoll/plimsoll/internal/script/probe"
	"github.com/plimsoll/plimsoll/internal/script/runner"
	"github.com/plimsoll/plimsoll/internal/script/verdict"
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

	Driver watch.Source // the machine's cards; nil where there is no driver to ask
	Helper []string     // command line of this program as a helper (runner.Help); empty: none
	Tasks  Tasks        // of a job step that starts plimsoll once for each task; none: zero
}

// Run is one command under observation: where its probe lies and where its record goes.
type Run struct {
	Request
	folder string // temporary: the probe, and the report when nobody asked to keep it
	report string
	keep   bool

	attempts int
	// Of the last attempt.
	driver  verdict.Driver
	printed []byte // the end of what it wrote to stderr
	heard   bool   // stderr was read along
	failed  int    // code of another task that failed
}

// Open prepares the record. An error says why the probe cannot be used: the run then goes on without it.
func Open(q Request) (*Run, error) {
	// Nobody may read what is said at the end; the command's exit code is returned all the same. The command itself is not affected: a signal that is
	// caught here is what it was for a new program.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	r := &Run{Request: q}
	err := r.prepare()
	if err == nil {
		return r, nil
	}
	if r.folder != "" {
		os.RemoveAll(r.folder)
	}
	r.folder, r.report = "", ""
	return r, fmt.Errorf("prepare the record: %w", err)
}

func (r *Run) prepare() error {
	folder, err := runner.Folder()
	if err != nil {
		return err
	}
	r.folder, r.report = folder, filepath.Join(folder, "report")
	if r.Report != "" {
		if r.report, err = filepath.Abs(r.Report); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(r.report, 0o755); err != nil {
		return err
	}
	if err := writable(r.report); err != nil {
		return err
	}
	return probe.Install(r.probe())
}

func (r *Run) probe() string { return filepath.Join(r.folder, "probe") }

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
	switch {
	case r.folder == "":
	case r.keep && r.Report == "":
		runner.Keep(r.folder)
		for _, name := range []string{"probe", "capture", "bin"} {
			os.RemoveAll(filepath.Join(r.folder, name))
		}
	default:
		os.RemoveAll(r.folder)
	}
}

// Folder makes a folder for something that lasts as long as the run.
func (r *Run) Folder(name string) (string, error) {
	if r.folder == "" {
		return "", errors.New("there is no folder for temporary files")
	}
	dir := filepath.Join(r.folder, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make a folder for the %s: %w", name, err)
	}
	return dir, nil
}

// Attempt runs the command once in fresh processes, with a plan of what to change, until it ends or stop is closed.
func (r *Run) Attempt(plan *attempt.Plan, stop <-chan struct{}) (runner.Outcome, error) {
	r.attempts++
	command := runner.Command{Args: r.Args, Env: r.Env, Stdin: r.Stdin, Stdout: r.Stdout, Stderr: r.Stderr,
		Stop: stop, Helper: r.Helper, Remove: r.folder, Errors: &runner.Tail{}, Terminal: !r.seesAll()}
	if r.folder != "" {
		command.Args, command.Env = r.withProbe(plan)
	}
	r.heard = !r.stderrIsTerminal() || command.Terminal
	f := &family{proc: "/proc", mark: probe.Mark + "=" + r.name(), probe: r.probe(), known: map[int]verdict.Blindness{}}
	driver := watchDriver(r.Driver, f)
	command.Started = f.started
	outcome, err := runner.Run(command)
	r.driver, r.printed = driver.finish(), command.Errors.Bytes()
	return outcome, err
}

// name tells this attempt from all others.
func (r *Run) name() string {
	if r.Tasks.Step != "" {
		return fmt.Sprintf("%s.%d", r.Tasks.Step, r.attempts) // the same in every task
	}
	return fmt.Sprintf("%s.%d", filepath.Base(r.folder), r.attempts)
}

// withProbe is the command line and the environment under which Python loads the probe.
func (r *Run) withProbe(plan *attempt.Plan) (args, environ []string) {
	settings := probe.Settings{Mode: probe.Observe, Report: r.report, Record: r.Record, Run: r.name()}
	if r.Report != "" {
		settings.Keep = probe.KeepPeak
	}
	base := r.Env
	if plan != nil {
		settings.Fit = plan.JSON()
		base = append(base[:len(base):len(base)], plan.Variables(r.Variable)...)
	}
	environ = probe.Environ(base, r.probe(), settings)
	path := r.Variable("PATH")
	if probe.NeedsShims(r.Args, r.find) {
		bin := filepath.Join(r.folder, "bin")
		if err := probe.Shims(bin, r.probe(), probe.Find(path)); err == nil {
			environ = append(environ, "PATH="+bin+string(os.PathListSeparator)+path)
		}
	}
	return probe.Args(r.Args, r.probe()), environ
}

// find is the file that a command's name leads to; empty where there is none.
func (r *Run) find(name string) string {
	if strings.ContainsRune(name, filepath.Separator) {
		return name
	}
	for _, dir := range filepath.SplitList(r.Variable("PATH")) {
		full := filepath.Join(dir, name)
		if info, err := os.Stat(full); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return full
		}
	}
	return ""
}

// seesAll tells whether the command is a Python that loads the probe: it tells itself what ends it.
func (r *Run) seesAll() bool {
	path := r.find(r.Args[0])
	if r.folder == "" || path == "" {
		return false
	}
	if probe.IsPython(filepath.Base(path)) {
		return !ignoresPath(r.Args[1:])
	}
	return pythonScript(path)
}

// pythonScript tells whether a file is run by Python, as torchrun and accelerate are.
func pythonScript(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	line := make([]byte, 256)
	n, _ := f.Read(line)
	first, _, _ := bytes.Cut(line[:n], []byte("\n"))
	for word := range strings.FieldsSeq(strings.TrimPrefix(string(first), "#!")) {
		if bytes.HasPrefix(first, []byte("#!")) && probe.IsPython(filepath.Base(word)) {
			return true
		}
	}
	return false
}

func (r *Run) stderrIsTerminal() bool {
	f, ok := r.Stderr.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Notes reads what every process of the last attempt noted; what cannot be read is said and left out. Notes of earlier runs may lie in the same folder.
func (r *Run) Notes() []probenotes.Process {
	var all []probenotes.Process
	for _, path := range r.files("rank*.json") {
		p, err := readNotes(path)
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			r.Say(fmt.Sprintf("%s: %v", filepath.Base(path), err))
		case p.Run == r.name():
			all = append(all, p)
		}
	}
	return all
}

func (r *Run) files(pattern string) []string {
	if r.report == "" {
		return nil
	}
	paths, _ := filepath.Glob(filepath.Join(r.report, pattern))
	return paths
}

func readNotes(path string) (probenotes.Process, error) {
	f, err := os.Open(path)
	if err != nil {
		return probenotes.Process{}, err
	}
	defer f.Close()
	return probenotes.Read(f)
}

// Clear removes the record of the last attempt.
func (r *Run) Clear() {
	for _, p := range r.Notes() {
		for _, path := range r.files(fmt.Sprintf("rank%d-%d.*", p.Rank, p.PID)) {
			os.Remove(path)
		}
	}
}

// Gone tells whether a rank of the last attempt has said that it will not go on: the others may wait for it.
func (r *Run) Gone() bool {
	for _, path := range r.files("rank*.gone") {
		var said struct {
			Run string `json:"run"`
		}
		if data, err := os.ReadFile(path); err == nil && json.Unmarshal(data, &said) == nil && said.Run == r.name() {
			return true
		}
	}
	return false
}
