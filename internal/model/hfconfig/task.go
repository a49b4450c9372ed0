package hfconfig

import (
	"encoding/json"
	"strings"

	"github.com/plimsoll/plimsoll/internal/document"
	"github.com/plimsoll/plimsoll/internal/torch"
)

// Task is what the configuration is trained for where nobody says it: the head that architectures names, else
// the head the family is known for.
func (c *Config) Task() string {
	for _, a := range c.architectures {
		if t := taskOfHead(a); t != "" {
			if t == "seq2seq-lm" && c.Family.Task == "speech-seq2seq" {
				return c.Family.Task
			}
			return t
		}
	}
	if c.Family.Task == "" {
		return "causal-lm"
	}
	return c.Family.Task
}

// OtherHead is the class the file names where it is none of the heads of Task: a model without a head, or one for a task
// that has no model here. Task is then a guess from the family.
func (c *Config) OtherHead() string {
	for _, a := range c.architectures {
		if taskOfHead(a) != "" {
			return ""
		}
	}
	if len(c.architectures) == 0 {
		return ""
	}
	return clip(c.architectures[0])
}

// Brief is what can be told of any configuration, its family known or not.
type Brief struct {
	Type  string
	Task  string      // of the head that the file names; empty: none that is known
	DType torch.DType // of the weights as they were saved; empty: not said
	Image int         // side of an image in pixels; 0: not said
}

// About reads what any configuration tells. A file that is none tells nothing.
func About(data []byte) Brief {
	var raw struct {
		Type   string          `json:"model_type"`
		Archs  []string        `json:"architectures"`
		DType  string          `json:"dtype"`
		Older  string          `json:"torch_dtype"`
		Image  json.RawMessage `json:"image_size"`
		Vision struct {
			Image json.RawMessage `json:"image_size"`
		} `json:"vision_config"`
		Text struct {
			DType string `json:"dtype"`
			Older string `json:"torch_dtype"`
		} `json:"text_config"`
	}
	if len(data) > int(document.Config.Most) || json.Unmarshal(data, &raw) != nil {
		return Brief{}
	}
	b := Brief{Type: clip(raw.Type)}
	if lib, model := LibraryOf(data); lib != Transformers {
		b.Type = model
	}
	for _, a := range raw.Archs {
		if b.Task == "" {
			b.Task = taskOfHead(a)
		}
	}
	for _, d := range []string{raw.DType, raw.Older, raw.Text.DType, raw.Text.Older} {
		if word, known := torch.DTypeNamed(d); known && b.DType == "" {
			b.DType = word
		}
	}
	for _, text := range []json.RawMessage{raw.Image, raw.Vision.Image} {
		if v, err := decodeInts(text); err == nil && b.Image == 0 {
			switch v := v.(type) {
			case int:
				b.Image = v
			case []int:
				if len(v) > 0 {
					b.Image = v[0]
				}
			}
		}
	}
	return b
}

func taskOfHead(architecture string) string {
	for _, h := range []struct{ suffix, task string }{
		{"T5WithLMHeadModel", "seq2seq-lm"}, // the name T5ForConditionalGeneration had when its first checkpoints were saved
		{"ForCausalLM", "causal-lm"}, {"LMHeadModel", "causal-lm"}, {"ForMaskedLM", "masked-lm"},
		{"ForSequenceClassification", "seq-cls"}, {"ForTokenClassification", "token-cls"},
		{"ForConditionalGeneration", "seq2seq-lm"}, {"ForImageClassification", "image-cls"},
	} {
		if strings.HasSuffix(architecture, h.suffix) {
			return h.task
		}
	}
	return ""
}

// readArchitectures keeps the class names the file lists; anything else there is ignored, since it only names a default.
func readArchitectures(raw map[string]json.RawMessage) []string {
	var names []string
	if json.Unmarshal(raw["architectures"], &names) != nil || len(names) > 16 {
		return nil
	}
	return names
}
