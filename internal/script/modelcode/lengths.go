package modelcode

import (
	"bytes"
	_ "embed" // of the script below
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/plimsoll/plimsoll/internal/model/lengths"
)

//go:embed lengths.py
var lengthsScript string

// Dataset names a column of a data set that the library datasets can load.
type Dataset struct {
	Name      string `json:"name"` // on the hub, or a file or folder
	Config    string `json:"config,omitempty"`
	Split     string `json:"split,omitempty"`     // empty: train, else the first
	Column    string `json:"column,omitempty"`    // empty: the first that says how long a sample is
	Tokenizer string `json:"tokenizer,omitempty"` // for columns of text: the model whose tokenizer counts
	Download  bool   `json:"-"`                   // what is not in the local cache may be fetched
}

// DatasetPrefix begins the text of a Dataset.
const DatasetPrefix = "dataset:"

// ParseDataset reads dataset:NAME,split=train,column=input_ids,tokenizer=NAME.
func ParseDataset(text string) (Dataset, error) {
	parts := strings.Split(strings.TrimPrefix(text, DatasetPrefix), ",")
	d := Dataset{Name: parts[0]}
	if d.Name == "" {
		return d, fmt.Errorf("%s: which data set? Write dataset:NAME,column=input_ids", text)
	}
	fields := map[string]*string{"config": &d.Config, "split": &d.Split, "column": &d.Column, "tokenizer": &d.Tokenizer}
	for _, part := range parts[1:] {
		name, value, _ := strings.Cut(part, "=")
		to, ok := fields[name]
		if !ok || value == "" {
			return d, fmt.Errorf("%s: %.40q is not known; config=, split=, column= and tokenizer= are", text, part)
		}
		*to = value
	}
	return d, nil
}

// Lengths asks the installed datasets how long the samples of a data set are.
func (r *Reader) Lengths(d Dataset) ([]int, error) {
	path, err := r.interpreter()
	if err != nil {
		return nil, err
	}
	spec, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("describe the data set: %w", err)
	}
	cmd := exec.Command(path, "-c", lengthsScript, string(spec))
	cmd.Env = r.Env
	if !d.Download {
		cmd.Env = append(cmd.Env[:len(cmd.Env):len(cmd.Env)], "HF_HUB_OFFLINE=1", "HF_DATASETS_OFFLINE=1", "TRANSFORMERS_OFFLINE=1")
	}
	var told bytes.Buffer
	cmd.Stderr = &told
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("data set %s: %w", d.Name, errors.New(lastLine(told.String(), err)))
	}
	return lengths.Read(bytes.NewReader(out))
}

// lastLine is what a failed command said last.
func lastLine(text string, err error) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
		return last
	}
	return err.Error()
}
