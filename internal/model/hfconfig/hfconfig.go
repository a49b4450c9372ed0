// Package hfconfig reads a Hugging Face config.json into a typed configuration.
//
// It takes the file's JSON and returns a Config whose accessors answer every field the model family's code
// reads, with the defaults of the family's config class (transformers 5.17) where the file is silent and the
// values its __post_init__ derives. Refused: a model_type without a model here (ErrUnsupported;
// Supported lists those that have one), a field of the wrong type, sizes that are negative or larger than any model,
// contradictory head counts. Header reads the header of a safetensors file to count parameters.
package hfconfig

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/document"
)

// Bounds of a believable configuration. The largest published models have a hidden size of 53,248, about 2^18
// tokens in the vocabulary and fewer than 200 layers.
const (
	maxInt    = 1 << 33
	maxLayers = 1024
	maxList   = 4096
)

// ErrUnsupported is in the chain of the error for a model_type without a model here.
var ErrUnsupported = errors.New("is not built in")

// Config is one model's configuration.
type Config struct {
	Type   string // model_type, as in config.json
	Family Family
	values map[string]any
	labels int

	architectures []string
}

// Read reads a config.json.
func Read(r io.Reader) (*Config, error) {
	data, err := document.Read(r, document.Config)
	if err != nil {
		return nil, err
	}
	return Parse(data)
}

// Parse reads the content of a config.json.
func Parse(data []byte) (*Config, error) {
	if err := document.Config.Check(len(data)); err != nil {
		return nil, err
	}
	var raw map[string]json.RawMessage
	if err := document.Decode(StandardJSON(data), &raw); err != nil {
		return nil, fmt.Errorf("config.json is not a JSON object: %w", err)
	}
	if err := otherLibrary(raw); err != nil {
		return nil, err
	}
	modelType, err := modelType(raw)
	if err != nil {
		return nil, err
	}
	family, ok := FamilyOf(modelType)
	if !ok {
		return nil, unsupported(modelType, raw)
	}
	c := &Config{Type: modelType, Family: family, values: map[string]any{}, architectures: readArchitectures(raw)}
	for name, f := range family.Fields {
		c.values[name] = f.standard
	}
	if err := c.fill(raw); err != nil {
		return nil, err
	}
	if c.labels, err = labels(raw, family); err != nil {
		return nil, err
	}
	if err := c.derive(raw); err != nil {
		return nil, err
	}
	return c, c.check()
}

// Language tells of any configuration, whether or not its family is known, whether it is that of a language model, which has a vocabulary, and how many positions it has (0: it does not say).
func Language(data []byte) (vocabulary bool, positions int) {
	if c, err := Parse(data); err == nil {
		return c.Has("vocab_size"), c.Positions()
	}
	var c struct {
		Words     float64 `json:"vocab_size"`
		Positions float64 `json:"max_position_embeddings"`
	}
	if document.Config.Check(len(data)) != nil || document.Decode(StandardJSON(data), &c) != nil {
		return false, 0
	}
	return c.Words > 0, int(min(max(c.Positions, 0), 1<<30))
}

func modelType(raw map[string]json.RawMessage) (string, error) {
	text, ok := raw["model_type"]
	if !ok {
		return "", fmt.Errorf("config.json has no model_type; is it the config.json of a transformers model?")
	}
	var name string
	if err := json.Unmarshal(text, &name); err != nil {
		return "", fmt.Errorf("config.json: model_type is not a string")
	}
	return name, nil
}

func unsupported(modelType string, raw map[string]json.RawMessage) error {
	return fmt.Errorf("model_type %q %w%s", clip(modelType), ErrUnsupported, textPart(raw))
}

// textPart says what to do with a configuration of several models, where its language model is a known one.
func textPart(raw map[string]json.RawMessage) string {
	var part struct {
		Type string `json:"model_type"`
	}
	if json.Unmarshal(raw["text_config"], &part) != nil {
		return ""
	}
	if _, known := FamilyOf(part.Type); !known {
		return ""
	}
	return fmt.Sprintf(" (its text_config is a %s, which is: saved as a config.json of its own, it predicts the training of the language model alone)", part.Type)
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}

// fill overlays the file's values on the defaults; aliases (hidden_size for n_embd) come first, the class's own names win.
func (c *Config) fill(raw map[string]json.RawMessage) error {
	for _, alias := range sortedKeys(c.Family.Alias) {
		name := c.Family.Alias[alias]
		if text, ok := raw[alias]; ok {
			if err := c.set(name, text); err != nil {
				return err
			}
		}
	}
	for _, name := range sortedKeys(c.Family.Fields) {
		if text, ok := raw[name]; ok {
			if err := c.set(name, text); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Config) set(name string, text json.RawMessage) error {
	f, ok := c.Family.Fields[name]
	if !ok {
		return nil
	}
	if string(text) == "null" {
		c.values[name] = nil
		return nil
	}
	v, err := f.kind.decode(text)
	if err != nil {
		return fmt.Errorf("config.json: %s of %s: %w", name, c.Family.Class, err)
	}
	c.values[name] = v
	return nil
}

// labels counts the classes of a classification head: id2label, else num_labels, else the class's default
// (PreTrainedConfig 2, BartConfig 3).
func labels(raw map[string]json.RawMessage, f Family) (int, error) {
	if text, ok := raw["id2label"]; ok && string(text) != "null" {
		var named map[string]json.RawMessage
		if err := json.Unmarshal(text, &named); err != nil {
			return 0, fmt.Errorf("config.json: id2label is not an object of label names")
		}
		if len(named) > 0 {
			return len(named), nil
		}
	}
	if text, ok := raw["num_labels"]; ok && string(text) != "null" {
		v, err := kindInt.decode(text)
		if err != nil {
			return 0, fmt.Errorf("config.json: num_labels: %w", err)
		}
		return v.(int), nil
	}
	if f.Labels > 0 {
		return f.Labels, nil
	}
	return 2, nil
}

// Labels is the number of classes of a classification head.
func (c *Config) Labels() int { return c.labels }

// Has tells whether the family's configuration has a field of that name.
func (c *Config) Has(name string) bool {
	_, ok := c.values[c.own(name)]
	return ok
}

// Null tells whether a field is None.
func (c *Config) Null(name string) bool { return c.value(name) == nil }

// Int is a whole number; 0 where the field is None.
func (c *Config) Int(name string) int {
	switch v := c.value(name).(type) {
	case int:
		return v
	case []int: // a size given once for both sides
		if len(v) > 0 {
			return v[0]
		}
	case float64:
		return int(v)
	}
	return 0
}

// Ints is a list of whole numbers; a single number is a list of one.
func (c *Config) Ints(name string) []int {
	switch v := c.value(name).(type) {
	case []int:
		return v
	case int:
		return []int{v}
	}
	return nil
}

// Float is a number; 0 where the field is None.
func (c *Config) Float(name string) float64 {
	switch v := c.value(name).(type) {
	case float64:
		return v
	case int:
		return float64(v)
	}
	return 0
}

// Bool is a flag; false where the field is None.
func (c *Config) Bool(name string) bool { v, _ := c.value(name).(bool); return v }

// String is a word; "" where the field is None.
func (c *Config) String(name string) string { v, _ := c.value(name).(string); return v }

// Strings is a list of words.
func (c *Config) Strings(name string) []string { v, _ := c.value(name).([]string); return v }

// value panics on a name the family's class does not have: that is a mistake in a model, never in a file.
func (c *Config) value(name string) any {
	own := c.own(name)
	v, ok := c.values[own]
	if !ok {
		panic(fmt.Sprintf("hfconfig: %s has no field %q", c.Family.Class, name))
	}
	return v
}

func (c *Config) own(name string) string {
	if own, ok := c.Family.Alias[name]; ok {
		return own
	}
	return name
}

// check refuses sizes no model has, so that a model built from the configuration stays small.
func (c *Config) check() error {
	for _, name := range sortedKeys(c.values) {
		if err := believable(name, c.values[name]); err != nil {
			return fmt.Errorf("config.json: %s: %w", name, err)
		}
		if c.values[name] == nil && c.Family.Fields[name].standard != nil && sized(name) {
			return fmt.Errorf("config.json: %s is null; a %s model needs a number", name, c.Type)
		}
	}
	if c.labels < 1 {
		return fmt.Errorf("config.json: num_labels %d is not a number of classes", c.labels)
	}
	for _, pair := range [][2]string{{"hidden_size", "num_attention_heads"}, {"d_model", "encoder_attention_heads"}, {"d_model", "decoder_attention_heads"}} {
		if err := c.divides(pair[0], pair[1]); err != nil {
			return err
		}
	}
	if c.Has("num_key_value_heads") && c.Has("num_attention_heads") && !c.Null("num_key_value_heads") {
		heads, kv := c.Int("num_attention_heads"), c.Int("num_key_value_heads")
		if kv <= 0 || heads%kv != 0 {
			return fmt.Errorf("config.json: num_attention_heads %d is not a multiple of num_key_value_heads %d", heads, kv)
		}
	}
	return nil
}

// divides checks that heads split a width evenly, unless the class sets the head's size on its own.
func (c *Config) divides(width, heads string) error {
	if !c.Has(width) || !c.Has(heads) || c.Has("head_dim") || c.Has("d_kv") {
		return nil
	}
	w, n := c.Int(width), c.Int(heads)
	if len(c.Ints(heads)) > 1 {
		return nil
	}
	if n <= 0 || w%n != 0 {
		return fmt.Errorf("config.json: %s %d is not a multiple of %s %d", width, w, heads, n)
	}
	return nil
}

func believable(name string, v any) error {
	switch v := v.(type) {
	case int:
		return believableInt(name, v)
	case []int:
		for _, n := range v {
			if err := believableInt(name, n); err != nil {
				return err
			}
		}
	case float64:
		if math.IsNaN(v) || math.Abs(v) > 1e12 {
			return fmt.Errorf("%g is not a plausible number", v)
		}
	}
	return nil
}

// A field that counts things of which every model has at least one is neither 0 nor null. Fields are told by the start or the end of
// their names; those that only sound alike come first.
var (
	countsNothing = []string{"dropout", "sliding_window", "max_window_layers", "type_vocab_size", "layerdrop", "max_relative_positions"}
	countsThings  = []string{
		"hidden_size", "hidden_sizes", "vocab_size", "_heads", "n_head", "n_embd", "d_model", "d_kv", "d_ff", "dim", "ffn_dim", "embed_dim", "hidden_dim", "patch_size", "patch_sizes",
		"image_size", "num_channels", "intermediate_size", "embedding_size", "_layers", "n_layer", "depths", "window_size", "strides", "num_encoder_blocks",
		"position_embeddings", "_positions", "num_mel_bins", "num_hidden_groups", "inner_group_num", "experts", "experts_per_tok",
	}
)

// sized tells which fields count things of which a model has at least one.
func sized(name string) bool {
	for _, part := range countsNothing {
		if strings.Contains(name, part) {
			return false
		}
	}
	for _, part := range countsThings {
		if strings.HasSuffix(name, part) || strings.HasPrefix(name, part) {
			return true
		}
	}
	return false
}

func believableInt(name string, n int) error {
	limit := maxInt
	if strings.Contains(name, "layer") || strings.Contains(name, "depth") || strings.Contains(name, "experts") {
		limit = maxLayers
	}
	switch {
	case n > limit:
		return fmt.Errorf("%d is more than any model has", n)
	case n < 0 && name != "pad_token_id" && name != "layer_norm_eps" && name != "max_relative_positions":
		return fmt.Errorf("%d is negative", n)
	case n == 0 && sized(name):
		return fmt.Errorf("0 is not a size")
	}
	return nil
}

func clip(s string) string { return document.Clip(s) }
