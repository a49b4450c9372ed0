package hfconfig

import (
	_ "embed"
	"encoding/json"
	"sync"
)

// familiesJSON is the table of model families, by model_type. An entry holds all that is known about a family beside its forward
// pass: the fields, types and defaults of its config class, taken from the annotations of
// https://github.com/huggingface/transformers/tree/v5.17.0/src/transformers/models (configuration_*.py, less the fields that memory cannot
// depend on), and the traits of Family.
//
//go:embed families.json
var familiesJSON []byte

// Family is one entry of the table.
type Family struct {
	Class string `json:"class"` // the config class whose defaults apply
	Like  string `json:"like"`  // the family that it is in all but its class: the same computation under another name
	// Code names the forward pass in package families. Several types share one where they differ by traits.
	Code      string `json:"code"`
	Elsewhere string `json:"elsewhere"` // the forward pass of it in frameworks that have their own (package families); empty: none has, or none is written
	Prefix    string `json:"prefix"`    // base_model_prefix
	Task      string `json:"task"`      // what it is trained for where the file names no head; causal-lm where empty
	Labels    int    `json:"labels"`    // the class's default for a classification head; 2 where 0

	// Eager says that transformers has no other attention for it: another attn_implementation is an error (_supports_sdpa, 5.17).
	Eager bool `json:"eager"`

	TokenHead string `json:"token_head"` // what a decoder's token classifier is called; empty: it has none
	Uniform   bool   `json:"uniform"`    // its layers are all of one kind
	// Split says that tensor parallelism cuts its layers by heads and by the width of the MLP (base_model_tp_plan: q, k, v, gate and up by
	// columns, o and down by rows).
	Split bool `json:"split"`

	Positions             string `json:"positions"`    // the field that counts learned positions
	PositionsIf           string `json:"positions_if"` // the field that switches them on
	PositionsAfterPadding bool   `json:"positions_after_padding"`

	Bias      Bias      `json:"bias"`
	QueryNorm QueryNorm `json:"query_norm"`
	Experts   bool      `json:"experts"` // the MLP is a sparse mixture, its experts one tensor
	Norms     int       `json:"norms"`   // of a layer; 2 where 0
	Ropes     int       `json:"ropes"`   // one for each kind of layer; 1 where 0
	Softcap   bool      `json:"softcap"` // eager attention caps its scores
	Windows   Windows   `json:"windows"`
	Rotary    Rotary    `json:"rotary"`

	Derive []string          `json:"derive"` // what __post_init__ computes; see derivations
	Alias  map[string]string `json:"alias"`  // attribute_map
	Fields map[string]field  `json:"fields"`
}

// Bias says which projections of attention have one.
type Bias string

// The default is the field attention_bias, for all four.
const (
	BiasConfig Bias = ""
	BiasQKV    Bias = "qkv" // queries, keys and values
	BiasNone   Bias = "none"
)

// QueryNorm says where queries and keys are normalised by head.
type QueryNorm string

// Before the heads are moved in front of the positions, after it, or not at all.
const (
	QueryNormNone   QueryNorm = ""
	QueryNormBefore QueryNorm = "before-transpose"
	QueryNormAfter  QueryNorm = "after-transpose"
)

// Windows says which layers attend within a window where the file has no layer_types.
type Windows struct {
	Every      int    `json:"every"`       // all layers but every n-th
	EveryField string `json:"every_field"` // an older field that sets Every
	From       string `json:"from"`        // the field that names the first layer with one
	If         string `json:"if"`          // the field that switches windows on
	Both       bool   `json:"both"`        // both masks are made whatever the layers are
}

// Rotary is the share of a head that is rotated: the older name of the field, and the default.
type Rotary struct {
	Older    string
	Standard float64
}

// UnmarshalJSON reads [older name, default].
func (r *Rotary) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&r.Older, &r.Standard})
}

// table parses the families once; they are never changed afterwards.
var table = sync.OnceValue(func() map[string]Family {
	var all map[string]Family
	if err := json.Unmarshal(familiesJSON, &all); err != nil {
		panic("hfconfig: embedded families.json: " + err.Error())
	}
	for name, f := range all {
		if f.Like != "" {
			alias := all[f.Like]
			alias.Class, alias.Like = f.Class, f.Like
			all[name] = alias
		}
	}
	return all
})

// FamilyOf is the entry of a model type.
func FamilyOf(modelType string) (Family, bool) {
	f, ok := table()[modelType]
	return f, ok
}

// Supported lists the model types that have a model here, sorted.
func Supported() []string { return sortedKeys(table()) }

// LearnedPositions is the longest sequence of a model that looks its positions up in a table; 0 for the others.
func (c *Config) LearnedPositions() int {
	f := c.Family
	switch {
	case f.Positions == "", f.PositionsIf != "" && !c.Bool(f.PositionsIf):
		return 0
	case f.PositionsAfterPadding: // they count from pad_token_id + 1
		return c.Int(f.Positions) - max(c.Int("pad_token_id"), 0) - 1
	}
	return c.Int(f.Positions)
}
