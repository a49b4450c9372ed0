// Package families holds model families, written line by line from their modelling code against package eager.
//
// In go a Hugging Face configuration and the sizes of a batch; out comes an eager.Model whose forward allocates what
// transformers 5.17 allocates in eager mode, in its order and with its lifetimes. Refused: a task the family has no head for,
// and settings whose code path is not written here.
package families

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// Spec is what of a job a family needs beside its configuration.
type Spec struct {
	Task          string
	Batch         int
	Seq           int
	TargetSeq     int
	Image         int
	Frames        int
	DType         tensor.DType // of the parameters
	Checkpointing bool
	Attn          string // sdpa or eager; empty is sdpa
}

// builder makes a model of one family.
type builder func(p *eager.Process, c *hfconfig.Config, s Spec) (eager.Model, error)

// families are the builders by model_type.
var families = map[string]builder{
	"albert":      newAlbert,
	"bart":        newBart,
	"beit":        newBeit,
	"bert":        newBert,
	"bloom":       newBloom,
	"convnext":    newConvNext,
	"deberta-v2":  newDeberta,
	"deit":        newViT,
	"dinov2":      newDinov2,
	"distilbert":  newDistilBert,
	"electra":     newBert,
	"falcon":      newFalcon,
	"gemma":       newGemma,
	"gemma2":      newGemma,
	"gemma3_text": newGemma,
	"gpt2":        newGPT2,
	"gpt_neox":    newNeoX,
	"llama":       newLlama,
	"mistral":     newLlama,
	"mixtral":     newLlama,
	"opt":         newOPT,
	"phi3":        newPhi3,
	"qwen2":       newLlama,
	"qwen3":       newLlama,
	"roberta":     newBert,
	"segformer":   newSegformer,
	"swin":        newSwin,
	"t5":          newT5,
	"vit":         newViT,
	"whisper":     newWhisper,
}

// Families lists the model types that can be built, sorted.
func Families() []string {
	var out []string
	for name := range families {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// New builds the model of a configuration in a process.
func New(p *eager.Process, c *hfconfig.Config, s Spec) (eager.Model, error) {
	build, ok := families[c.Type]
	if !ok {
		return nil, fmt.Errorf("model_type %q has no model here (there are: %s); export a graph with torch.export instead",
			c.Type, strings.Join(Families(), ", "))
	}
	if s.Attn == "" {
		s.Attn = "sdpa"
	}
	if longest, seq := learnedPositions(c), max(s.Seq, s.TargetSeq); longest > 0 && seq > longest {
		return nil, fmt.Errorf("a sequence of %d tokens: %s has learned positions for %d; shorten the sequence", seq, c.Type, longest)
	}
	m, err := build(p, c, s)
	if err != nil {
		return nil, err
	}
	m.Root().CreateOnDevice()
	return m, nil
}

// learnedPositions is the longest sequence of a family that looks its positions up in a table; 0 for the others.
func learnedPositions(c *hfconfig.Config) int {
	switch c.Type {
	case "gpt2":
		return c.Int("n_positions")
	case "whisper":
		return c.Int("max_target_positions")
	case "opt", "bart", "bert", "electra", "distilbert", "albert":
		return c.Int("max_position_embeddings")
	case "roberta": // counts from pad_token_id + 1
		return c.Int("max_position_embeddings") - max(c.Int("pad_token_id"), 0) - 1
	case "deberta-v2":
		if c.Bool("position_biased_input") {
			return c.Int("max_position_embeddings")
		}
	}
	return 0
}

// wrongTask is the error for a task without a head.
func wrongTask(c *hfconfig.Config, s Spec, have ...string) error {
	return fmt.Errorf("model_type %q has no head for task %q here (it has: %s)", c.Type, s.Task, strings.Join(have, ", "))
}
