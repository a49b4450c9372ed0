// Package capture turns an unmodified training script into a job, without a GPU.
//
// It takes a command line and a folder and returns job.json and the graph it names (torch.export's JSON, gzipped), in the Job form that predictions
// read. The command runs on the CPU for real until its first model call in training, on tensors without data from there,
// and ends at its first optimizer step; what it did before that (files, downloads, prints) has happened. A script
// that cannot be captured is refused with the reason and, where one is known, the script's line.
package capture

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/plimsoll/plimsoll/internal/model/traced"
	"github.com/plimsoll/plimsoll/internal/script/probe"
	"github.com/plimsoll/plimsoll/internal/script/runner"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Request is what to capture.
type Request struct {
	Args   []string  // the command
	Env    []string  // the whole environment it would have had
	Dir    string    // folder for the job and its graph; exists
	Stdin  io.Reader // as the command expects them
	Stdout io.Writer
	Stderr io.Writer
	Card   *Card           // the card the script is to believe in; nil: a plausible one
	Stop   <-chan struct{} // when closed, the capture is given up; nil: never
	Whole  bool            // follow the loader that feeds the step to the end of its run
	Epochs int             // of a whole run: passes over the data; 0: as many as the script says
	Limit  time.Duration   // how long a first training step is waited for; 0: as long as it takes
	Since  time.Time       // of a trace: when the same command was captured; zero: it was not
}

// Card is what a script may ask about its card.
type Card struct {
	Memory     units.Bytes `json:"memory"`
	Capability [2]int      `json:"capability"`
}

// Place is what a captured script asked of its card and how many processes it runs in. It lies beside the job.
type Place struct {
	GPU         bool     `json:"gpu"`              // a model was put on the GPU
	CapFraction *float64 `json:"cap_fraction"`     // of set_per_process_memory_fraction
	World       int      `json:"world_size"`       // processes that train together
	LocalWorld  int      `json:"local_world_size"` // of them, those on this machine
	Parallel    bool     `json:"parallel"`         // under DistributedDataParallel
	Loader      bool     `json:"loader"`           // a DataLoader was made
}

// ReadPlace reads what a capture left about its place; a capture that never got to torch left nothing.
func ReadPlace(dir string) (Place, error) {
	var p Place
	data, err := os.ReadFile(filepath.Join(dir, "place.json"))
	if err != nil {
		return p, fmt.Errorf("read the captured place: %w", err)
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return p, fmt.Errorf("read the captured place: %w", err)
	}
	return p, nil
}

// Batches are what a script's own loaders make in its run, and the model they go into.
type Batches struct {
	Batches   [][3]any        `json:"batches"`    // samples, tokens of the longest (0: no token ids), whether any is padding
	Epochs    []int           `json:"epochs"`     // batches at the end of every epoch that was seen
	Meant     int             `json:"meant"`      // epochs of the run
	Complete  bool            `json:"complete"`   // all of them were seen to their ends
	Why       string          `json:"why"`        // what was in the way
	Eval      [][3]any        `json:"eval"`       // of one evaluation
	EvalEvery int             `json:"eval_every"` // batches between evaluations; 0: after each epoch
	MaxSteps  int             `json:"max_steps"`  // batches of the run, where the script says so
	Config    json.RawMessage `json:"config"`     // of a model of transformers
	Attn      string          `json:"attn"`
}

// ReadBatches reads what a capture that followed the loader left.
func ReadBatches(dir string) (Batches, error) {
	var b Batches
	data, err := os.ReadFile(filepath.Join(dir, "run.json"))
	if err == nil {
		err = json.Unmarshal(data, &b)
	}
	if err != nil {
		return b, fmt.Errorf("read the captured batches: %w", err)
	}
	return b, nil
}

// Interrupted says that someone asked for the end while the capture ran.
type Interrupted struct{ Outcome runner.Outcome }

func (i Interrupted) Error() string {
	return fmt.Sprintf("the capture was ended by %s", i.Outcome.Asked)
}

// Failed says why a script could not be captured.
type Failed struct {
	Why  string `json:"why"`
	File string `json:"file"`
	Line int    `json:"line"`
	Late bool   `json:"-"` // the time was over
}

func (f Failed) Error() string {
	if f.File == "" {
		return "the training step was not captured: " + f.Why
	}
	return "the training step was not captured " + f.Reason()
}

// Reason is why, with the script's line where one is known.
func (f Failed) Reason() string {
	if f.File == "" {
		return f.Why
	}
	return fmt.Sprintf("at %s:%d: %s", f.File, f.Line, f.Why)
}

// Run captures the command's first training step and returns the path of the job file.
func Run(r Request) (string, error) {
	dir, err := filepath.Abs(r.Dir)
	if err != nil {
		return "", fmt.Errorf("find the capture's folder: %w", err)
	}
	python, err := runner.Folder()
	if err != nil {
		return "", fmt.Errorf("make a folder for the probe: %w", err)
	}
	defer os.RemoveAll(python)
	if err := probe.Install(python); err != nil {
		return "", fmt.Errorf("write the probe: %w", err)
	}
	card, err := described(r.Card)
	if err != nil {
		return "", err
	}
	env := probe.Environ(r.Env, python, probe.Settings{Mode: probe.Capture, Report: dir, Card: card, Whole: r.Whole, Epochs: r.Epochs})
	stop, begun := r.Stop, time.Now()
	limit := r.Limit
	if r.Whole {
		limit += wholeRun
	}
	if r.Limit > 0 {
		var done func()
		stop, done = bounded(r.Stop, limit)
		defer done()
	}
	outcome, err := runner.Run(runner.Command{Args: probe.Args(r.Args, python), Env: env, Stdin: r.Stdin, Stdout: r.Stdout, Stderr: r.Stderr, Stop: stop})
	if err != nil {
		return "", err
	}
	if outcome.Asked != 0 {
		return "", Interrupted{outcome}
	}
	job := filepath.Join(dir, "job.json")
	if _, err := os.Stat(job); err == nil {
		return job, nil
	}
	if r.Limit > 0 && outcome.Signal != 0 && time.Since(begun) >= r.Limit {
		return "", Failed{Why: fmt.Sprintf("no training step within %s", r.Limit), Late: true}
	}
	return "", failure(dir, outcome)
}

// Trace follows the command through all it does, for at most the given time, and returns what was seen. What the script writes after its first backward pass
// is written nowhere.
func Trace(r Request, limit time.Duration) (*traced.Trace, error) {
	dir, err := filepath.Abs(r.Dir)
	if err != nil {
		return nil, fmt.Errorf("find the trace's folder: %w", err)
	}
	python, err := runner.Folder()
	if err != nil {
		return nil, fmt.Errorf("make a folder for the probe: %w", err)
	}
	defer os.RemoveAll(python)
	if err := probe.Install(python); err != nil {
		return nil, fmt.Errorf("write the probe: %w", err)
	}
	card, err := described(r.Card)
	if err != nil {
		return nil, err
	}
	env := probe.Environ(r.Env, python, probe.Settings{Mode: probe.Trace, Report: dir, Card: card, Seconds: limit.Seconds(), Since: r.Since})
	stop, done := bounded(r.Stop, limit+grace)
	defer done()
	begun := time.Now()
	outcome, err := runner.Run(runner.Command{Args: probe.Args(r.Args, python), Env: env, Stdin: r.Stdin, Stdout: r.Stdout, Stderr: r.Stderr, Stop: stop})
	if err != nil {
		return nil, err
	}
	if outcome.Asked != 0 {
		return nil, Interrupted{outcome}
	}
	if _, err := os.Stat(filepath.Join(dir, "trace.json")); err != nil && outcome.Signal != 0 && time.Since(begun) >= limit {
		return nil, Failed{Why: fmt.Sprintf("following the script took longer than %s before anything was seen", limit), Late: true}
	}
	return readTrace(dir, outcome)
}

// wholeRun is what going through a script's loaders may take beyond that (SECONDS in _batches.py, for training and a last batch of it).
const wholeRun = 150 * time.Second

// grace is what a command gets beyond its time to write down what was seen.
const grace = 20 * time.Second

// bounded is a channel that closes when another does, or when the time is over.
func bounded(stop <-chan struct{}, limit time.Duration) (<-chan struct{}, func()) {
	ended := make(chan struct{})
	end := sync.OnceFunc(func() { close(ended) })
	over := make(chan struct{})
	timer := time.AfterFunc(limit, end)
	go func() {
		select {
		case <-stop:
			end()
		case <-over:
		}
	}()
	return ended, func() {
		timer.Stop()
		close(over)
	}
}

func readTrace(dir string, outcome runner.Outcome) (*traced.Trace, error) {
	header, err := os.Open(filepath.Join(dir, "trace.json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, failure(dir, outcome)
	}
	if err != nil {
		return nil, fmt.Errorf("read the trace: %w", err)
	}
	defer header.Close()
	events, err := os.Open(filepath.Join(dir, "trace.bin.gz"))
	if err != nil {
		return nil, fmt.Errorf("read the trace: %w", err)
	}
	defer events.Close()
	return traced.Read(header, events)
}

func described(c *Card) (string, error) {
	if c == nil {
		return "", nil
	}
	data, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("describe the card: %w", err)
	}
	return string(data), nil
}

// failure reads why there is no job.
func failure(dir string, outcome runner.Outcome) error {
	data, err := os.ReadFile(filepath.Join(dir, "failure.json"))
	if errors.Is(err, os.ErrNotExist) && outcome.Killed() {
		return Failed{Why: "the command was killed; building the model may need more host memory than there is"}
	}
	if err != nil {
		return Failed{Why: fmt.Sprintf("the command ended with code %d and never imported torch in a Python that reads PYTHONPATH", outcome.Code)}
	}
	var f Failed
	if err := json.Unmarshal(data, &f); err != nil {
		return fmt.Errorf("read why the capture failed: %w", err)
	}
	return f
}
