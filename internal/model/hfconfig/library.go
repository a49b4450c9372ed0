package hfconfig

import (
	"encoding/json"
	"fmt"

	"github.com/plimsoll/plimsoll/internal/document"
)

// Library is whose code a configuration belongs to.
type Library string

// The libraries whose models are read from their code.
const (
	Transformers Library = "transformers"
	Diffusers    Library = "diffusers"
	Timm         Library = "timm"
)

// LibraryOf tells whose configuration this is, and what model it names there: transformers' have a model_type, diffusers' a _class_name, timm's an architecture.
func LibraryOf(data []byte) (lib Library, model string) {
	var raw map[string]json.RawMessage
	if document.Config.Check(len(data)) != nil || document.Decode(StandardJSON(data), &raw) != nil {
		return Transformers, ""
	}
	return libraryOf(raw)
}

func libraryOf(raw map[string]json.RawMessage) (Library, string) {
	if _, ok := raw["model_type"]; ok {
		return Transformers, ""
	}
	for _, l := range []struct {
		field   string
		library Library
	}{{"_class_name", Diffusers}, {"architecture", Timm}} {
		var name string
		if json.Unmarshal(raw[l.field], &name) == nil && name != "" {
			return l.library, clip(name)
		}
	}
	return Transformers, ""
}

// otherLibrary is the error for a configuration of another library than transformers; nil for transformers' own.
func otherLibrary(raw map[string]json.RawMessage) error {
	lib, model := libraryOf(raw)
	if lib == Transformers {
		return nil
	}
	return fmt.Errorf("%s of %s %w", model, lib, ErrUnsupported)
}
