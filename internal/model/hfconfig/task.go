package hfconfig

import (
	"encoding/json"
	"strings"
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
