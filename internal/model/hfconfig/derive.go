package hfconfig

import (
	"encoding/json"
	"fmt"
	"strings"
)

// derivations are the computations of __post_init__ that families name in their entries (transformers 5.17.0,
// models/*/configuration_*.py).
var derivations = map[string]func(*Config, map[string]json.RawMessage) error{
	"heads":        (*Config).deriveHeads,
	"rotary":       (*Config).deriveRotaryFactor,
	"width":        (*Config).deriveWidth,
	"feed-forward": (*Config).deriveFeedForward,
	"projection":   (*Config).deriveProjection,
	"gated":        (*Config).deriveGated,
	"pooler":       (*Config).derivePooler,
	"stages":       (*Config).deriveStages,
	"relative":     (*Config).deriveRelative,
}

func (c *Config) derive(raw map[string]json.RawMessage) error {
	for _, name := range c.Family.Derive {
		if err := derivations[name](c, raw); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) deriveProjection(map[string]json.RawMessage) error {
	c.orElse("word_embed_proj_dim", "hidden_size")
	return nil
}

func (c *Config) derivePooler(map[string]json.RawMessage) error {
	if c.Int("pooler_output_size") == 0 {
		c.values["pooler_output_size"] = c.values["hidden_size"]
	}
	return nil
}

func (c *Config) orElse(name, other string) {
	if c.Null(name) {
		c.values[name] = c.values[c.own(other)]
	}
}

func (c *Config) deriveHeads(raw map[string]json.RawMessage) error {
	c.orElse("num_key_value_heads", "num_attention_heads")
	heads := c.Int("num_attention_heads")
	if heads <= 0 {
		return fmt.Errorf("config.json: num_attention_heads %d is not a number of heads", heads)
	}
	// Qwen2 and Phi-3 have no head_dim field, but their attention reads one where the file has it
	// (getattr(config, "head_dim", hidden_size // num_attention_heads)).
	if text, ok := raw["head_dim"]; ok && string(text) != "null" {
		v, err := decodeInt(text)
		if err != nil {
			return fmt.Errorf("config.json: head_dim: %w", err)
		}
		c.values["head_dim"] = v
	}
	if v, ok := c.values["head_dim"]; !ok || v == nil {
		if c.Int("hidden_size")%heads != 0 {
			return fmt.Errorf("config.json: hidden_size %d is not a multiple of num_attention_heads %d", c.Int("hidden_size"), heads)
		}
		c.values["head_dim"] = c.Int("hidden_size") / heads
	}
	if c.Int("head_dim") <= 0 {
		return fmt.Errorf("config.json: head_dim %d is not a size", c.Int("head_dim"))
	}
	if on := c.Family.Windows.If; on != "" && !c.Bool(on) {
		c.values["sliding_window"] = nil
	}
	return c.deriveLayerTypes(raw)
}

// deriveRotaryFactor sets partial_rotary_factor, the share of a head that is rotated: from rope_scaling or
// rope_parameters, else from its older name, else the family's default (convert_rope_params_to_dict).
func (c *Config) deriveRotaryFactor(raw map[string]json.RawMessage) error {
	factor := c.Family.Rotary.Standard
	sources := map[string]json.RawMessage{}
	for _, name := range []string{"rope_parameters", "rope_scaling"} {
		var nested map[string]json.RawMessage
		if json.Unmarshal(raw[name], &nested) == nil && len(nested) > 0 {
			sources = nested
		}
	}
	text, ok := sources["partial_rotary_factor"]
	if !ok {
		text, ok = raw[c.Family.Rotary.Older]
	}
	if ok && string(text) != "null" {
		if json.Unmarshal(text, &factor) != nil || factor <= 0 || factor > 1 {
			return fmt.Errorf("config.json: %s is not a fraction of a head that can be rotated", clip(string(text)))
		}
	}
	c.values["partial_rotary_factor"] = factor
	return nil
}

// deriveLayerTypes says which layers attend within a window, for the families that alternate.
func (c *Config) deriveLayerTypes(raw map[string]json.RawMessage) error {
	if !c.Has("layer_types") {
		return nil
	}
	layers := c.Int("num_hidden_layers")
	if layers > maxLayers {
		return fmt.Errorf("config.json: num_hidden_layers %d is more than any model has", layers)
	}
	if !c.Null("layer_types") {
		if n := len(c.Strings("layer_types")); n != layers {
			return fmt.Errorf("config.json: layer_types has %d entries for %d layers", n, layers)
		}
		return nil
	}
	windows := c.Family.Windows
	every := max(1, windows.Every)
	if text, ok := raw[windows.EveryField]; ok && windows.EveryField != "" {
		v, err := decodeInt(text)
		if err != nil || v.(int) <= 0 {
			return fmt.Errorf("config.json: %s %s is not a number of layers", windows.EveryField, clip(string(text)))
		}
		every = v.(int)
	}
	types := make([]string, max(0, layers))
	for i := range types {
		sliding := (i+1)%every != 0
		if windows.From != "" {
			sliding = !c.Null("sliding_window") && i >= c.Int(windows.From)
		}
		types[i] = "full_attention"
		if sliding {
			types[i] = "sliding_attention"
		}
	}
	c.values["layer_types"] = types
	return nil
}

func (c *Config) deriveWidth(raw map[string]json.RawMessage) error {
	if text, ok := raw["n_embed"]; ok && string(text) != "null" {
		v, err := decodeInt(text)
		if err != nil {
			return fmt.Errorf("config.json: n_embed: %w", err)
		}
		c.values["hidden_size"] = v
	}
	return nil
}

func (c *Config) deriveFeedForward(map[string]json.RawMessage) error {
	c.orElse("num_kv_heads", "num_attention_heads")
	if c.Null("ffn_hidden_size") {
		c.values["ffn_hidden_size"] = 4 * c.Int("hidden_size")
	}
	return nil
}

// deriveGated splits feed_forward_proj ("gated-gelu") into is_gated_act and dense_act_fn. Word embeddings are
// always tied; a file that says otherwise only stops the scaling of the decoder's output.
func (c *Config) deriveGated(raw map[string]json.RawMessage) error {
	c.orElse("num_decoder_layers", "num_layers")
	parts := strings.Split(c.String("feed_forward_proj"), "-")
	c.values["is_gated_act"] = parts[0] == "gated"
	c.values["dense_act_fn"] = parts[len(parts)-1]
	if c.String("feed_forward_proj") == "gated-gelu" {
		c.values["dense_act_fn"] = "gelu_new"
	}
	// Files that transformers 5 saved say it themselves; older ones said it by not tying.
	scales, said := raw["scale_decoder_outputs"]
	if !said {
		scales = raw["tie_word_embeddings"]
	}
	c.values["scale_decoder_outputs"] = string(scales) != "false"
	c.values["tie_word_embeddings"] = true
	return nil
}

func (c *Config) deriveStages(map[string]json.RawMessage) error {
	stages := len(c.Ints("depths"))
	if stages == 0 || stages > 16 {
		return fmt.Errorf("config.json: depths lists %d stages", stages)
	}
	if heads := len(c.Ints("num_heads")); heads != stages {
		return fmt.Errorf("config.json: num_heads has %d entries for %d stages", heads, stages)
	}
	c.values["num_layers"] = stages
	c.values["hidden_size"] = c.Int("embed_dim") << (stages - 1)
	return nil
}

// debertaExtras are what DeBERTa's code reads with getattr though its config class has no such field.
var debertaExtras = map[string]field{
	"share_att_key":       {kindBool, false},
	"position_buckets":    {kindInt, 0}, // or -1: none
	"norm_rel_ebd":        {kindString, "none"},
	"conv_kernel_size":    {kindInt, 0},
	"conv_groups":         {kindInt, 1},
	"conv_act":            {kindString, "tanh"},
	"embedding_size":      {kindInt, nil}, // hidden_size
	"pooler_hidden_size":  {kindInt, nil}, // hidden_size
	"attention_head_size": {kindInt, nil}, // hidden_size / num_attention_heads
	"cls_dropout":         {kindFloat, nil},
}

func (c *Config) deriveRelative(raw map[string]json.RawMessage) error {
	if types := c.Strings("pos_att_type"); len(types) == 1 && strings.Contains(types[0], "|") {
		split := strings.Split(strings.ToLower(types[0]), "|")
		for i := range split {
			split[i] = strings.TrimSpace(split[i])
		}
		c.values["pos_att_type"] = split
	}
	for _, name := range sortedKeys(debertaExtras) {
		extra := debertaExtras[name]
		c.values[name] = extra.standard
		if text, ok := raw[name]; ok && string(text) != "null" {
			v, err := extra.kind.decode(text)
			if err != nil {
				return fmt.Errorf("config.json: %s of %s: %w", name, c.Family.Class, err)
			}
			c.values[name] = v
		}
	}
	c.orElse("embedding_size", "hidden_size")
	c.orElse("pooler_hidden_size", "hidden_size")
	if c.Null("attention_head_size") && c.Int("num_attention_heads") > 0 {
		c.values["attention_head_size"] = c.Int("hidden_size") / c.Int("num_attention_heads")
	}
	for _, name := range []string{"embedding_size", "pooler_hidden_size", "attention_head_size", "conv_groups"} {
		if v := c.Int(name); v <= 0 || v > 1<<20 {
			return fmt.Errorf("config.json: %s %d is not a size", name, v)
		}
	}
	c.values["position_buckets"] = max(0, c.Int("position_buckets"))
	if v := c.Int("position_buckets"); v > 1<<20 {
		return fmt.Errorf("config.json: position_buckets %d is more than any model has", v)
	}
	if v := c.Int("conv_kernel_size"); v < 0 || v > 1<<10 {
		return fmt.Errorf("config.json: conv_kernel_size %d is not the size of a kernel", v)
	}
	return nil
}
