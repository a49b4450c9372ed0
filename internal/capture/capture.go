// Package capture turns an unmodified training script into a job, without a GPU.
//
// In go a command line and a folder; out come job.json and the graph it names (torch.export's JSON, gzipped), in the Job form that predictions
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

	"github.com/plimsoll/plimsoll/internal/probe"
	"github.com/plimsoll/plimsoll/internal/runner"
)

// Request is what to capture.
type Request struct {
	Args   []string  // the command
	Env    []string  // the whole environment it would have had
	Dir    string    // folder for the job and its graph; exists
	Stdin  io.Reader // as the command expects them
	Stdout io.Writer
	Stderr io.Writer
}

// Failed says why a script could not be captured.
type Failed struct {
	Why  string `json:"why"`
	File string `json:"file"`
	Line int    `json:"line"`
}

func (f Failed) Error() string {
	if f.File == "" {
		return "the training step was not captured: " + f.Why
	}
	return fmt.Sprintf("the training step was not captured at %s:%d: %s", f.File, f.Line, f.Why)
}

// Run captures the command's first training step and returns the path of the job file.
func Run(r Request) (string, error) {
	dir, err := filepath.Abs(r.Dir)
	if err != nil {
		return "", fmt.Errorf("find the capture's folder: %w", err)
	}
	python, err := os.MkdirTemp("", "plimsoll-")
	if err != nil {
		return "", fmt.Errorf("make a folder for the probe: %w", err)
	}
	defer os.RemoveAll(python)
	if err := probe.Install(python); err != nil {
		return "", fmt.Errorf("write the probe: %w", err)
	}
	env := probe.Environ(r.Env, python, probe.Settings{Mode: probe.Capture, Report: dir})
	outcome, err := runner.Run(runner.Command{Args: r.Args, Env: env, Stdin: r.Stdin, Stdout: r.Stdout, Stderr: r.Stderr})
	if err != nil {
		return "", err
	}
	job := filepath.Join(dir, "job.json")
	if _, err := os.Stat(job); err == nil {
		return job, nil
	}
	return "", failure(dir, outcome)
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
