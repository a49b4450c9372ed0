package predict

import (
	"testing"

	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/units"
)

// A script that keeps the model's output keeps the keys and values of every layer beside the logits: they are alive when the next step begins.
func TestACacheKeepsKeysAndValuesUntilTheNextForward(t *testing.T) {
	t.Parallel()
	const layers, heads, kv, dim, batch, seq = 3, 8, 2, 64, 4, 256
	configs := map[string]string{
		"llama":    `{"model_type":"llama","hidden_size":512,"intermediate_size":1024,"num_hidden_layers":3,"num_attention_heads":8,"num_key_value_heads":2,"vocab_size":1000}`,
		"phi3":     `{"model_type":"phi3","hidden_size":512,"intermediate_size":1024,"num_hidden_layers":3,"num_attention_heads":8,"num_key_value_heads":2,"vocab_size":1000,"pad_token_id":0}`,
		"gpt2":     `{"model_type":"gpt2","n_embd":512,"n_layer":3,"n_head":8,"vocab_size":1000}`,
		"gpt_neox": `{"model_type":"gpt_neox","hidden_size":512,"intermediate_size":1024,"num_hidden_layers":3,"num_attention_heads":8,"vocab_size":1000}`,
		"opt":      `{"model_type":"opt","hidden_size":512,"ffn_dim":1024,"num_hidden_layers":3,"num_attention_heads":8,"vocab_size":1000,"word_embed_proj_dim":512}`,
		"bloom":    `{"model_type":"bloom","hidden_size":512,"n_layer":3,"n_head":8,"vocab_size":1000}`,
		"falcon":   `{"model_type":"falcon","hidden_size":512,"num_hidden_layers":3,"num_attention_heads":8,"num_kv_heads":2,"new_decoder_architecture":true,"vocab_size":1000}`,
	}
	for name, config := range configs {
		c, err := hfconfig.Parse([]byte(config))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		between := func(cache, checkpointing bool) units.Bytes {
			j := job.Job{Config: []byte(config), Task: "causal-lm", Batch: batch, Seq: seq, Loop: "script", UseCache: cache, Checkpointing: checkpointing}
			if err := j.Check(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			res, err := Run(j, Source{Config: c}, h200(t))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return res.Report.Steps[2]["zero_grad"]
		}
		each := heads
		if name == "llama" || name == "phi3" { // Falcon repeats its keys and values for all heads before it caches them
			each = kv
		}
		want := units.Bytes(layers * 2 * batch * seq * each * dim * 4)
		if got := between(true, false) - between(false, false); got < want*94/100 || got > want*106/100 { // other tensors of the last step fill the same blocks
			t.Errorf("%s: a cache keeps %v from one step to the next, want %v", name, got, want)
		}
		if on, off := between(true, true), between(false, true); on != off {
			t.Errorf("%s: checkpointing switches the cache off, but %v and %v are kept", name, on, off)
		}
	}
}
