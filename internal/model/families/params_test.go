package families

import (
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// published are configurations of models on the Hugging Face hub with the number of parameters that transformers 5.17 counts.
var published = []struct {
	name, task, config string
	params             int
}{
	{"mistral-7b", "causal-lm", `{"model_type":"mistral","vocab_size":32000,"hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":32,
		"num_attention_heads":32,"num_key_value_heads":8,"sliding_window":4096,"tie_word_embeddings":false}`, 7_241_732_096},
	{"mixtral-8x7b", "causal-lm", `{"model_type":"mixtral"}`, 46_702_792_704},
	{"gemma-2b", "causal-lm", `{"model_type":"gemma","vocab_size":256000,"hidden_size":2048,"intermediate_size":16384,"num_hidden_layers":18,
		"num_attention_heads":8,"num_key_value_heads":1,"head_dim":256}`, 2_506_172_416},
	{"gemma-2-2b", "causal-lm", `{"model_type":"gemma2"}`, 2_614_341_888},
	{"phi-3-mini", "causal-lm", `{"model_type":"phi3","num_key_value_heads":32,"sliding_window":2047}`, 3_821_079_552},
	{"falcon-7b", "causal-lm", `{"model_type":"falcon"}`, 6_921_720_704},
	{"falcon-40b", "causal-lm", `{"model_type":"falcon","hidden_size":8192,"num_hidden_layers":60,"num_attention_heads":128,"num_kv_heads":8,
		"new_decoder_architecture":true}`, 41_303_293_952},
	{"falcon-rw-1b", "causal-lm", `{"model_type":"falcon","hidden_size":2048,"num_hidden_layers":24,"num_attention_heads":32,"alibi":true,
		"bias":true,"multi_query":false,"parallel_attn":false,"vocab_size":50304}`, 1_311_625_216},
	{"electra-small", "masked-lm", `{"model_type":"electra"}`, 13_546_682},
	{"deberta-v3-base", "seq-cls", `{"model_type":"deberta-v2","vocab_size":128100,"hidden_size":768,"num_hidden_layers":12,
		"num_attention_heads":12,"intermediate_size":3072,"relative_attention":true,"position_buckets":256,"norm_rel_ebd":"layer_norm",
		"share_att_key":true,"pos_att_type":"p2c|c2p","position_biased_input":false}`, 184_423_682},
	{"deberta-v2-xlarge", "seq-cls", `{"model_type":"deberta-v2","relative_attention":true,"position_buckets":256,"norm_rel_ebd":"layer_norm",
		"share_att_key":true,"pos_att_type":["p2c","c2p"],"position_biased_input":false,"conv_kernel_size":3,"conv_act":"gelu"}`, 886_957_058},
	{"roberta-base", "token-cls", `{"model_type":"roberta"}`, 124_055_810},
	{"albert-xxlarge", "seq-cls", `{"model_type":"albert"}`, 222_603_778},
	{"opt-125m", "causal-lm", `{"model_type":"opt"}`, 125_239_296},
}

// steps runs three training steps of a small batch and gives the number of parameters.
func steps(t *testing.T, config, task string, s Spec) int {
	t.Helper()
	c, err := hfconfig.Parse([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	p := eager.NewProcess(eager.H200())
	s.Task = task
	m, err := New(p, c, s)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Train(m, eager.Options{Optimizer: "sgd", Steps: 1}); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, w := range m.Root().Parameters() {
		n += w.Numel()
	}
	return n
}

func TestPublishedModelsHaveTheirNumberOfParameters(t *testing.T) {
	t.Parallel()
	for _, m := range published {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			for _, attn := range []string{"sdpa", "eager"} {
				again := attn == "eager" && !strings.HasPrefix(m.name, "albert") // ALBERT cannot be checkpointed
				s := Spec{Batch: 1, Seq: 64, DType: tensor.BFloat16, Attn: attn, Checkpointing: again}
				if got := steps(t, m.config, m.task, s); got != m.params {
					t.Errorf("%s, %s attention: %d parameters, published %d", m.name, attn, got, m.params)
				}
			}
		})
	}
}
