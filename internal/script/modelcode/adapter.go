package modelcode

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/plimsoll/plimsoll/internal/document"
)

// Adapter is what PEFT's adapter_config.json says about the training of an adapter.
type Adapter struct {
	Base    string   // the model it is put beside
	Rank    int      // of its matrices
	Targets []string // the layers it is put beside; none: PEFT's own for the model
	Dropout float64
	DoRA    bool
	Whole   []string // modules that are trained beside it (modules_to_save)
	Uneven  bool     // some layers have another rank (rank_pattern)
}

// adapted finds the base model of an adapter's folder.
func adapted(dir string, env []string) (Found, error) {
	path := filepath.Join(dir, adapterFile)
	a, err := readAdapter(path)
	if err != nil {
		return Found{}, fmt.Errorf("%s: %w", path, err)
	}
	base := a.Base
	if local := filepath.Join(dir, base); exists(local) { // PEFT writes the path that the script had
		base = local
	}
	found, err := Locate(base, env)
	if err != nil {
		return Found{}, fmt.Errorf("%s is an adapter for %s: %w", dir, a.Base, err)
	}
	found.Adapter = &a
	return found, nil
}

func readAdapter(path string) (Adapter, error) {
	f, err := os.Open(path)
	if err != nil {
		return Adapter{}, fmt.Errorf("read the adapter: %w", err)
	}
	defer f.Close()
	data, err := document.Read(f, document.Config)
	if err != nil {
		return Adapter{}, err
	}
	var raw struct {
		Kind     string          `json:"peft_type"`
		Base     string          `json:"base_model_name_or_path"`
		Rank     int             `json:"r"`
		Dropout  float64         `json:"lora_dropout"`
		DoRA     bool            `json:"use_dora"`
		Targets  json.RawMessage `json:"target_modules"`
		Whole    []string        `json:"modules_to_save"`
		Patterns map[string]int  `json:"rank_pattern"`
	}
	if err := document.Decode(data, &raw); err != nil {
		return Adapter{}, fmt.Errorf("it is not the configuration of an adapter: %w", err)
	}
	a := Adapter{Base: raw.Base, Rank: raw.Rank, Dropout: raw.Dropout, DoRA: raw.DoRA, Whole: raw.Whole, Uneven: len(raw.Patterns) > 0}
	switch {
	case !strings.EqualFold(raw.Kind, "LORA"):
		return a, fmt.Errorf("peft_type %q is not known; LORA is (name the base model, and the adapter in a script: plimsoll predict -- python train.py)", document.Clip(raw.Kind))
	case a.Base == "":
		return a, fmt.Errorf("it does not say which model it is for (base_model_name_or_path is empty): name that model and set --lora-rank %d", a.Rank)
	case a.Rank <= 0:
		return a, fmt.Errorf("r is %d; an adapter has a rank", a.Rank)
	}
	a.Targets, err = targets(raw.Targets)
	return a, err
}

// targets are the layers that target_modules names: a list, the word all-linear, or nothing.
func targets(text json.RawMessage) ([]string, error) {
	var list []string
	var word string
	switch {
	case len(text) == 0 || string(text) == "null":
		return nil, nil
	case json.Unmarshal(text, &list) == nil:
		return list, nil
	case json.Unmarshal(text, &word) == nil && !strings.ContainsAny(word, `.*+?()[]|\\^$`):
		return []string{word}, nil
	}
	return nil, fmt.Errorf("target_modules is a regular expression, which is not read: name the base model and the layers with --lora-targets")
}
