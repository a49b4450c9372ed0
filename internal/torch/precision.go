package torch

import (
	"fmt"
	"strings"

	"github.com/plimsoll/plimsoll/internal/spelling"
)

// DType is the word for a number type.
type DType string

// The number types that parameters and autocast have.
const (
	FP32 DType = "fp32"
	BF16 DType = "bf16"
	FP16 DType = "fp16"
)

var dtypes = []struct {
	word  DType
	name  string // in PyTorch and in a config.json
	bytes int
}{{FP32, "float32", 4}, {BF16, "bfloat16", 2}, {FP16, "float16", 2}}

// DTypes lists the words.
func DTypes() []string {
	var out []string
	for _, d := range dtypes {
		out = append(out, string(d.word))
	}
	return out
}

// Name is the type in PyTorch's own words: bfloat16.
func (d DType) Name() string {
	for _, k := range dtypes {
		if k.word == d {
			return k.name
		}
	}
	return ""
}

// Bytes is the size of one number; 0 where the word is not known.
func (d DType) Bytes() int {
	for _, k := range dtypes {
		if k.word == d {
			return k.bytes
		}
	}
	return 0
}

// DTypeNamed finds a type by PyTorch's name, with or without "torch.".
func DTypeNamed(name string) (DType, bool) {
	name = strings.ToLower(strings.TrimPrefix(name, "torch."))
	for _, k := range dtypes {
		if k.name == name || string(k.word) == name {
			return k.word, true
		}
	}
	return "", false
}

// Precision is one word for how a model is computed: the type of its parameters and what autocast does.
type Precision string

// The precisions.
const (
	PlainFP32 Precision = "fp32"
	TF32      Precision = "tf32"
	AmpBF16   Precision = "amp-bf16"
	AmpFP16   Precision = "amp-fp16"
	PureBF16  Precision = "bf16"
	PureFP16  Precision = "fp16"
	// CastBF16 is autocast over parameters that are in bf16 already: Trainer(bf16=True) on a model that from_pretrained read in the type of its file.
	CastBF16 Precision = "bf16-autocast"
)

// precisions is the table: the parameters' type, autocast's ("" is off), and whether fp32 products run on tensor cores.
var precisions = []struct {
	word          Precision
	params, casts DType
	tf32          bool
}{
	{PlainFP32, FP32, "", false},
	{TF32, FP32, "", true},
	{AmpBF16, FP32, BF16, false},
	{AmpFP16, FP32, FP16, false},
	{PureBF16, BF16, "", false},
	{PureFP16, FP16, "", false},
	{CastBF16, BF16, BF16, false},
}

// Precisions lists the words.
func Precisions() []string {
	words := make([]string, len(precisions))
	for i, p := range precisions {
		words[i] = string(p.word)
	}
	return words
}

// precisionSpellings are what Lightning (https://lightning.ai/docs/pytorch/stable/common/trainer.html#precision), accelerate and people call them.
var precisionSpellings = map[string]Precision{
	"32": PlainFP32, "float": PlainFP32, "single": PlainFP32, "32-true": PlainFP32,
	"half": PureFP16, "16-true": PureFP16, "bf16-true": PureBF16,
	"16-mixed": AmpFP16, "fp16-mixed": AmpFP16, "mixed-fp16": AmpFP16, "amp-float16": AmpFP16, "autocast-fp16": AmpFP16,
	"bf16-mixed": AmpBF16, "mixed-bf16": AmpBF16, "amp-bfloat16": AmpBF16, "autocast-bf16": AmpBF16,
}

// ParsePrecision reads a word; PyTorch's and Lightning's names (bfloat16, BF16, bf16-mixed) are understood.
func ParsePrecision(word string) (Precision, error) {
	lower := strings.ReplaceAll(strings.ToLower(word), "_", "-")
	if usual := precisionSpellings[lower]; usual != "" {
		return usual, nil
	}
	if d, ok := DTypeNamed(lower); ok {
		lower = string(d)
	}
	for _, p := range precisions {
		if string(p.word) == lower {
			return p.word, nil
		}
	}
	return "", fmt.Errorf("precision %.40q is not known%s", word, spelling.Hint(lower, Precisions()))
}

// PrecisionOf is the word for parameters of a type under autocast; the parameters' type where there is none.
func PrecisionOf(params, autocast DType, tf32 bool) Precision {
	if params == "" {
		params = FP32
	}
	for _, p := range precisions {
		if p.params == params && p.casts == autocast && p.tf32 == tf32 {
			return p.word
		}
	}
	return Precision(params)
}

// Params is the type of the parameters.
func (p Precision) Params() DType {
	for _, k := range precisions {
		if k.word == p {
			return k.params
		}
	}
	return ""
}

// Autocast is the type autocast computes in, "" where it is off.
func (p Precision) Autocast() DType {
	for _, k := range precisions {
		if k.word == p {
			return k.casts
		}
	}
	return ""
}

// TF32 tells whether fp32 products run on tensor cores.
func (p Precision) TF32() bool { return p == TF32 }

// SameMemory is the precision with the least speed that needs the same memory: TF32 computes faster and holds what fp32 does.
func (p Precision) SameMemory() Precision {
	if p == TF32 {
		return PlainFP32
	}
	return p
}
