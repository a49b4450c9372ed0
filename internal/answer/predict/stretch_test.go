package predict

import (
	"fmt"
	"testing"

	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/setup"
)

// alternating are models whose layers see a window or everything, in turn: with samples longer than the window they need different memory.
var alternating = map[string]string{
	"gemma2": `{"model_type":"gemma2","hidden_size":64,"intermediate_size":96,"num_hidden_layers":%d,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":16,"vocab_size":500,
		"max_position_embeddings":8192,"sliding_window":32,"query_pre_attn_scalar":16,"tie_word_embeddings":true}`,
	"gemma3_text": `{"model_type":"gemma3_text","hidden_size":64,"intermediate_size":96,"num_hidden_layers":%d,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":16,"vocab_size":500,
		"max_position_embeddings":8192,"sliding_window":32,"query_pre_attn_scalar":16,"tie_word_embeddings":true}`,
}

// ordered is an order of layers: every so many-th first.
func ordered(depth, every int) []int {
	var out []int
	for from := range every {
		for l := from; l < depth; l += every {
			out = append(out, l)
		}
	}
	return out
}

func TestLayersInTurnAreWrittenFromAFew(t *testing.T) {
	t.Parallel()
	inTurn := 0
	for name, text := range alternating {
		for _, depth := range []int{23, 42, 62} {
			c, err := hfconfig.Parse(fmt.Appendf(nil, text, depth))
			if err != nil {
				t.Fatal(err)
			}
			every := c.Period()
			for _, j := range []job.Job{
				{Batch: 2, Seq: 64},
				{Batch: 1, Seq: 64, Checkpointing: true, Accumulate: 2},
				{Batch: 2, Seq: 64, Checkpointing: true, Layers: 7},
				{Batch: 2, Seq: 64, Checkpointing: true, Layers: 8, Order: ordered(depth, every), Optimizer: "sgdm"},
				{Batch: 1, Seq: 64, Checkpointing: true, Layers: depth - 5, Order: ordered(depth, every), Loop: "plain"},
			} {
				j.Source, j.Task, j.Config, j.ParamDType, j.Attn = "hf", "causal-lm", []byte(`{}`), "bf16", setup.SDPA
				if err := j.Check(); err != nil {
					t.Fatal(err)
				}
				src, m := Source{Config: c}, h200(t)
				got, r, err := NewVariants(src, m).tapeOf(j, setup.Cut{})
				if err != nil {
					t.Fatal(err)
				}
				p, _, _, err := train(j, src, m, 0)
				if err != nil {
					t.Fatal(err)
				}
				if err := sameTape(got, p.Tape()); err != nil {
					t.Errorf("%s, %d layers, %d checkpointed, zones %v: %v", name, depth, j.Layers, r.zones, err)
				}
				if r.zones != nil {
					inTurn++
				}
			}
		}
	}
	if inTurn < 15 {
		t.Errorf("only %d tapes were written from fewer layers than the model has", inTurn)
	}
}
