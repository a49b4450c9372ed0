// Package verify runs a written plan on this machine's card and compares it with what was predicted.
//
// It takes a written file and what is known of the model, writes a case and a Python driver that runs it for a few steps with random weights and tokens, and
// reads what the driver prints: memory by PyTorch's own counters, and the time of a step. A plan of several cards for fully_shard runs as one rank of them, with a
// process group whose collectives do nothing. The memory of the card that was asked about is set as a limit. Refused: forms without a program of their own,
// models that are not transformers', machines without a card.
package verify

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/units"
)

//go:embed driver.py
var driver []byte

// Forms are those that can be run here, the first where none was named.
var Forms = []string{"torch", "trainer", "trl", "fsdp2"}

// Steps of a check: the first makes state and workspaces, the others are timed.
const Steps = 4

// Case is what is run.
type Case struct {
	Form       string          `json:"form"`
	File       string          `json:"file"`
	Config     json.RawMessage `json:"config"`
	Class      string          `json:"class"`
	Seq        int             `json:"seq"`
	MicroBatch int             `json:"micro_batch"`
	Accumulate int             `json:"accumulate"`
	GPUs       int             `json:"gpus"`
	Attn       setup.Attention `json:"attn"`
	Room       units.Bytes     `json:"room"` // what PyTorch may reserve; 0: all there is
	Steps      int             `json:"steps"`
}

// Check refuses what cannot be run.
func (c Case) Check(s setup.Setup) error {
	switch {
	case !slices.Contains(Forms, c.Form):
		return fmt.Errorf("--verify runs plans written for %s; the plan for %s needs your own program around it", strings.Join(Forms, ", "), c.Form)
	case len(c.Config) == 0 || c.Seq == 0:
		return errors.New("--verify runs language models of transformers, with random weights and tokens")
	case c.Form != "fsdp2" && s.GPUs > 1, !s.Whole():
		return errors.New("--verify runs plans for one card, and one rank of --write fsdp2; other plans for several cards need those cards")
	case s.BaseBits > 0:
		return errors.New("--verify has no weights to quantize: a base in four bits is made while weights are loaded")
	}
	return nil
}

// Prepare writes the case and its program into a folder, and returns the arguments of the Python that runs it.
func (c Case) Prepare(folder, text string) ([]string, error) {
	c.File, c.Steps = filepath.Join(folder, "written.py"), Steps
	data, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("describe the plan: %w", err)
	}
	program, description := filepath.Join(folder, "driver.py"), filepath.Join(folder, "case.json")
	for name, content := range map[string][]byte{c.File: []byte(text), program: driver, description: data} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			return nil, fmt.Errorf("write the plan: %w", err)
		}
	}
	return []string{"-W", "ignore", program, description}, nil
}

// Measured is what a run took.
type Measured struct {
	Card      string      `json:"card"`
	Torch     string      `json:"torch"`
	Allocated units.Bytes `json:"allocated"`
	Reserved  units.Bytes `json:"reserved"`
	StepMS    float64     `json:"step_ms,omitempty"`
	Failed    string      `json:"failed,omitempty"` // out of memory

	Refused string `json:"refused,omitempty"`
}

// ErrNotRun says that nothing was measured.
var ErrNotRun = errors.New("the plan was not run")

// Read finds the driver's line in what it printed.
func Read(printed string) (Measured, error) {
	var m Measured
	for line := range strings.Lines(printed) {
		if text, ok := strings.CutPrefix(line, "PLIMSOLL "); ok {
			if err := json.Unmarshal([]byte(text), &m); err != nil {
				return m, fmt.Errorf("%w: its line cannot be read: %w", ErrNotRun, err)
			}
			if m.Refused != "" {
				return m, fmt.Errorf("%w: %s", ErrNotRun, m.Refused)
			}
			return m, nil
		}
	}
	return m, fmt.Errorf("%w: it ended before it could be measured", ErrNotRun)
}
