package hfconfig

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
)

func parse(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAFileThatSaysNothingGetsTheDefaultsOfItsClass(t *testing.T) {
	t.Parallel()
	c := parse(t, `{"model_type":"llama"}`)
	check := func(name string, want int) {
		if got := c.Int(name); got != want {
			t.Errorf("%s = %d, want %d", name, got, want)
		}
	}
	check("hidden_size", 4096)
	check("intermediate_size", 11008)
	check("num_key_value_heads", 32)
	check("head_dim", 128)
	if c.Bool("tie_word_embeddings") || c.String("hidden_act") != "silu" || c.Labels() != 2 {
		t.Error("llama: unexpected tie_word_embeddings, hidden_act or labels")
	}
}

func TestEveryFamilyParsesWithItsDefaults(t *testing.T) {
	t.Parallel()
	for _, name := range Supported() {
		if _, err := Parse([]byte(`{"model_type":"` + name + `"}`)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(Supported()); n != 34 {
		t.Errorf("%d families, want 34", n)
	}
}

func TestBothNamesOfAFieldAreRead(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"model_type":"gpt2","n_embd":1280,"n_head":20}`, `{"model_type":"gpt2","hidden_size":1280,"num_attention_heads":20}`} {
		c := parse(t, text)
		if c.Int("hidden_size") != 1280 || c.Int("n_embd") != 1280 || c.Int("n_head") != 20 {
			t.Errorf("%s: hidden_size %d, n_head %d", text, c.Int("hidden_size"), c.Int("n_head"))
		}
	}
}

func TestDerivedValuesFollowPostInit(t *testing.T) {
	t.Parallel()
	t5 := parse(t, `{"model_type":"t5","feed_forward_proj":"gated-gelu","num_layers":8,"tie_word_embeddings":false}`)
	if !t5.Bool("is_gated_act") || t5.String("dense_act_fn") != "gelu_new" || t5.Int("num_decoder_layers") != 8 || !t5.Bool("tie_word_embeddings") || t5.Bool("scale_decoder_outputs") {
		t.Errorf("t5 derived wrongly: %v", t5.values)
	}
	gemma := parse(t, `{"model_type":"gemma3_text","num_hidden_layers":7}`)
	if got := strings.Join(gemma.Strings("layer_types"), " "); strings.Count(got, "sliding") != 6 || gemma.Strings("layer_types")[5] != "full_attention" {
		t.Errorf("gemma3 layer_types = %s", got)
	}
	swin := parse(t, `{"model_type":"swin","embed_dim":128}`)
	if swin.Int("hidden_size") != 1024 {
		t.Errorf("swin hidden_size = %d", swin.Int("hidden_size"))
	}
	qwen := parse(t, `{"model_type":"qwen2","hidden_size":896,"num_attention_heads":14,"num_key_value_heads":2}`)
	if qwen.Int("head_dim") != 64 || !qwen.Null("sliding_window") {
		t.Errorf("qwen2 head_dim = %d", qwen.Int("head_dim"))
	}
}

func TestTheTaskFollowsTheHeadElseTheFamily(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"model_type":"llama"}`: "causal-lm", `{"model_type":"bert"}`: "masked-lm", `{"model_type":"whisper"}`: "speech-seq2seq", `{"model_type":"vit"}`: "image-cls",
		`{"model_type":"bert","architectures":["BertForSequenceClassification"]}`: "seq-cls", `{"model_type":"t5","architectures":null}`: "seq2seq-lm",
		`{"model_type":"whisper","architectures":["WhisperForConditionalGeneration"]}`: "speech-seq2seq", `{"model_type":"gpt2","architectures":["GPT2LMHeadModel"]}`: "causal-lm",
	} {
		if got := parse(t, text).Task(); got != want {
			t.Errorf("%s: task %q, want %q", text, got, want)
		}
	}
}

func TestTheTaskIsGuessedWhereTheHeadIsNotModelled(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ config, task, head string }{
		{`{"model_type":"t5","architectures":["T5WithLMHeadModel"]}`, "seq2seq-lm", ""},
		{`{"model_type":"segformer","architectures":["SegformerForSemanticSegmentation"]}`, "image-cls", "SegformerForSemanticSegmentation"},
		{`{"model_type":"bart","architectures":["BartModel"]}`, "seq2seq-lm", "BartModel"},
		{`{"model_type":"llama"}`, "causal-lm", ""},
	} {
		got, err := Parse([]byte(c.config))
		if err != nil {
			t.Fatal(err)
		}
		if got.Task() != c.task || got.OtherHead() != c.head {
			t.Errorf("%s: task %s, other head %q", c.config, got.Task(), got.OtherHead())
		}
	}
}

func TestAComposedModelPointsToItsLanguageModel(t *testing.T) {
	t.Parallel()
	_, err := Parse([]byte(`{"model_type":"gemma3","text_config":{"model_type":"gemma3_text"}}`))
	if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "text_config is a gemma3_text") {
		t.Errorf("%v", err)
	}
}

func TestUnbelievableConfigurationsAreRefused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"not JSON":             `{"model_type":`,
		"a list":               `[1]`,
		"no model_type":        `{"hidden_size":1}`,
		"negative size":        `{"model_type":"llama","hidden_size":-4096}`,
		"zero heads":           `{"model_type":"llama","num_attention_heads":0}`,
		"heads do not divide":  `{"model_type":"bert","hidden_size":768,"num_attention_heads":7}`,
		"kv heads":             `{"model_type":"llama","num_key_value_heads":5}`,
		"a word for a number":  `{"model_type":"llama","hidden_size":"big"}`,
		"a billion layers":     `{"model_type":"gpt2","n_layer":1000000000}`,
		"half a layer":         `{"model_type":"gpt2","n_layer":1.5}`,
		"no layers":            `{"model_type":"gpt2","n_layer":0}`,
		"layers of null":       `{"model_type":"gpt2","n_layer":null}`,
		"layers, other name":   `{"model_type":"llama","num_hidden_layers":null}`,
		"a vocabulary of null": `{"model_type":"llama","vocab_size":null}`,
		"no positions":         `{"model_type":"gpt2","n_positions":0}`,
		"no classes":           `{"model_type":"bert","num_labels":0}`,
		"an empty stage":       `{"model_type":"swin","depths":[2,0,6,2]}`,
		"layer_types too many": `{"model_type":"qwen3","num_hidden_layers":1,"layer_types":["a","b"]}`,
	} {
		if _, err := Parse([]byte(text)); err == nil {
			t.Errorf("%s: no error for %s", name, text)
		}
	}
}

func header(text string) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)
}

func TestASafetensorsHeaderCountsParameters(t *testing.T) {
	t.Parallel()
	h, err := ReadHeader(bytes.NewReader(header(`{"__metadata__":{"format":"pt"},"w":{"dtype":"BF16","shape":[3,4],"data_offsets":[0,24]},"b":{"dtype":"F32","shape":[3],"data_offsets":[24,36]}}`)))
	if err != nil || h.Parameters() != 15 || h.Bytes() != 36 || h.Tensors[0].Name != "b" {
		t.Errorf("header %+v, err %v", h, err)
	}
	for _, bad := range []string{"", "1234567", string(header(`{"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}`)), string(header(`{}`))[:9],
		string(header(`{"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}}`)), "\xff\xff\xff\xff\xff\xff\xff\xff{}"} {
		if _, err := ReadHeader(strings.NewReader(bad)); !errors.Is(err, ErrNotSafetensors) {
			t.Errorf("%q: err = %v", bad, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range Supported() {
		f.Add([]byte(`{"model_type":"` + name + `","hidden_size":64,"num_hidden_layers":2,"layer_types":null,"depths":[1,2]}`))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data)
		if err != nil {
			return
		}
		for name := range c.Family.Fields {
			c.Int(name)
			c.Ints(name)
			c.Float(name)
			c.Bool(name)
			_ = c.String(name)
			c.Strings(name)
		}
	})
}

func FuzzReadHeader(f *testing.F) {
	f.Add(header(`{"w":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := ReadHeader(bytes.NewReader(data))
		if err == nil && h.Parameters() < 0 {
			t.Errorf("%d parameters", h.Parameters())
		}
	})
}

func TestARankHasItsPartOfHeadsWidthAndLayers(t *testing.T) {
	t.Parallel()
	c := parse(t, `{"model_type":"gemma2"}`)
	part, err := c.Divide(2, 2)
	if err != nil {
		t.Fatal(err)
	}
	if part.Int("num_attention_heads") != 4 || part.Int("num_key_value_heads") != 2 || part.Int("head_dim") != 256 || part.Int("intermediate_size") != 4608 || part.Int("num_hidden_layers") != 13 || len(part.Strings("layer_types")) != 13 {
		t.Errorf("part %v", part.values)
	}
	if c.Int("num_attention_heads") != 8 {
		t.Error("the whole was changed")
	}
	for _, bad := range [][2]int{{0, 1}, {3, 1}, {1, 99}, {8, 1}} {
		if _, err := c.Divide(bad[0], bad[1]); err == nil {
			t.Errorf("%v was accepted", bad)
		}
	}
	if _, err := parse(t, `{"model_type":"bert"}`).Divide(2, 1); err == nil {
		t.Error("bert was divided")
	}
}

func TestLanguageModelsAreToldOfAnyFamily(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		`{"model_type":"apertus","vocab_size":131072,"max_position_embeddings":65536}`: 65536,
		`{"model_type":"made-up","vocab_size":10}`:                                     0,
		`{"model_type":"resnet","num_channels":3}`:                                     -1,
		`{"model_type":"made-up","vocab_size":"many"}`:                                 -1,
	} {
		words, positions := Language([]byte(text))
		if !words {
			positions = -1
		}
		if positions != want {
			t.Errorf("%s: %d, want %d", text, positions, want)
		}
	}
	if words, positions := Language([]byte(`{"model_type":"llama","vocab_size":32000,"max_position_embeddings":4096}`)); !words || positions != 4096 {
		t.Errorf("llama: %v, %d", words, positions)
	}
}
