package job

import (
	"fmt"

	"github.com/plimsoll/plimsoll/internal/spelling"
)

// precision is one word for how a model is computed: the type of its parameters and what autocast does.
type precision struct {
	word, params, autocast string
	tf32                   bool
}

var precisions = []precision{
	{"fp32", "fp32", "", false},
	{"tf32", "fp32", "", true},
	{"amp-bf16", "fp32", "bf16", false},
	{"amp-fp16", "fp32", "fp16", false},
	{"bf16", "bf16", "", false},
	{"fp16", "fp16", "", false},
}

// Precisions lists the words for precision.
func Precisions() []string {
	words := make([]string, len(precisions))
	for i, p := range precisions {
		words[i] = p.word
	}
	return words
}

// SetPrecision sets parameters and autocast by one word.
func (j *Job) SetPrecision(word string) error {
	for _, p := range precisions {
		if p.word == word {
			j.ParamDType, j.Autocast, j.TF32 = p.params, p.autocast, p.tf32
			return nil
		}
	}
	return fmt.Errorf("precision %.40q is not known%s", word, spelling.Hint(word, Precisions()))
}

// Precision is the word for the job's parameters and autocast.
func (j *Job) Precision() string {
	params := j.ParamDType
	if params == "" {
		params = "fp32"
	}
	for _, p := range precisions {
		if p.params == params && p.autocast == j.Autocast && p.tf32 == j.TF32 {
			return p.word
		}
	}
	return params
}
