// Package families holds model families, written line by line from their modelling code against package eager.
//
// It takes a Hugging Face configuration and the sizes of a batch and returns an eager.Model whose forward allocates what
// transformers 5.17 allocates in eager mode, in its order and with its lifetimes. Refused: a task the family has no head for,
// and settings whose code path is not supported.
package families

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/setup"
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
	Attn          string // sdpa, eager or flash_attention_2; empty is sdpa
	Loss          string // liger or chunked: how the loss of a causal model is computed; empty as transformers does
	Mask          Mask   // what attention_mask the model is called with
	UseCache      bool   // the model returns its keys and values; T5 does as its configuration says

	Code    setup.Code // whose modelling code; "" is transformers'
	Context int        // cards that divide the tokens of a sample; 0 and 1: none

	cache *kvCache // of a decoder
}

// Mask says which attention_mask a text model is called with.
type Mask uint8

// Masks. What a model makes of one depends on its values: it looks whether any token is padding.
const (
	NoMask Mask = iota
	Ones        // one is given, and nothing is padded
	Padded      // some samples are shorter than the batch
)

// builder makes a model of one family.
type builder func(p *eager.Process, c *hfconfig.Config, s Spec) (eager.Model, error)

// forwards are the forward passes, by the Code of a family's entry in hfconfig's table.
var forwards = map[string]builder{
	"Albert":     newAlbert,
	"Bart":       newBart,
	"Beit":       newBeit,
	"Bert":       newBert,
	"Bloom":      newBloom,
	"ConvNext":   newConvNext,
	"Deberta":    newDeberta,
	"Deit":       newViT,
	"Dinov2":     newDinov2,
	"DistilBert": newDistilBert,
	"Electra":    newBert,
	"Falcon":     newFalcon,
	"GPT2":       newGPT2,
	"Gemma":      newGemma,
	"Llama":      newLlama,
	"NeoX":       newNeoX,
	"OPT":        newOPT,
	"Phi3":       newPhi3,
	"Roberta":    newBert,
	"Segformer":  newSegformer,
	"Swin":       newSwin,
	"T5":         newT5,
	"ViT":        newViT,
	"Whisper":    newWhisper,
}

// flashes are the forward passes that run with flash-attn 2 here (_supports_flash_attn, transformers 5.17; Falcon has a class of its own for it, which is read from its code).
var flashes = []string{"Albert", "Bart", "Bert", "Deit", "Dinov2", "DistilBert", "Electra", "GPT2", "Gemma", "Llama", "NeoX", "OPT", "Phi3", "Roberta", "Segformer", "ViT", "Whisper"}

// others is the modelling code of frameworks, by the Elsewhere of a family's entry.
var others = map[setup.Code]map[string]builder{
	setup.Torchtitan:     {"Llama": newTitan},
	setup.Torchtitan2025: {"Llama": newTitan},
	setup.Torchtune:      {"Llama": newTune},
	setup.TorchtuneWhole: {"Llama": newTune},
}

// New builds the model of a configuration in a process.
func New(p *eager.Process, c *hfconfig.Config, s Spec) (eager.Model, error) {
	build, ok := forwards[c.Family.Code]
	if s.Code != "" && s.Code != setup.TRL {
		if build, ok = others[s.Code][c.Family.Elsewhere]; !ok {
			return nil, fmt.Errorf("model_type %q: how %s implements it is not supported", c.Type, s.Code)
		}
	}
	if !ok {
		return nil, fmt.Errorf("model_type %q is not built in; export a graph with torch.export instead", c.Type)
	}
	if s.Attn == "" {
		s.Attn = "sdpa"
	}
	if s.Attn == flash && !slices.Contains(flashes, c.Family.Code) {
		return nil, fmt.Errorf("model_type %q has %w %s here", c.Type, ErrAttention, flash)
	}
	if s.Attn == flash && s.Code != "" && s.Code != setup.TRL {
		return nil, fmt.Errorf("attn %s: %s has attention of its own; --attn sdpa", flash, s.Code)
	}
	if longest, seq := c.LearnedPositions(), max(s.Seq, s.TargetSeq); longest > 0 && seq > longest {
		return nil, fmt.Errorf("a sequence of %d tokens: %s has learned positions for %d; shorten the sequence", seq, c.Type, longest)
	}
	s.cache = &kvCache{on: s.UseCache && !s.Checkpointing}
	m, err := build(p, c, s)
	if err != nil {
		return nil, err
	}
	if f, ok := m.(interface{ fuses() bool }); s.Loss != "" && (!ok || !f.fuses()) {
		return nil, fmt.Errorf("loss_kernel %s: %s is not built in with a head that can be fused with its loss", s.Loss, c.Type)
	}
	if _, ok := m.(interface {
		fused(_, _ *eager.Tensor) *eager.Tensor
	}); s.Code == setup.TRL && (!ok || s.Task != "causal-lm") {
		return nil, fmt.Errorf("model_type %q, task %s: TRL's SFTTrainer trains decoders as causal-lm", c.Type, s.Task)
	}
	m.Root().CreateOnDevice()
	return m, nil
}

// ErrTask is the error for a task without a head here; the modelling code may have one.
var ErrTask = errors.New("no head for the task")

// ErrAttention is the error for an implementation of attention that a family does not have here; the modelling code may have it.
var ErrAttention = errors.New("no attention")

func wrongTask(c *hfconfig.Config, s Spec, have ...string) error {
	return fmt.Errorf("model_type %q has %w %q here (it has: %s)", c.Type, ErrTask, s.Task, strings.Join(have, ", "))
}
