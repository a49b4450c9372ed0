package modelcode

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/script/probe"
)

func TestSoundsCodesAndPartsComeAsModelsTakeThem(t *testing.T) {
	t.Parallel()
	r := pictureReader(t)
	small := `"hidden_size":64,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":4,"head_dim":16,"intermediate_size":128,"vocab_size":100`
	codec := `"model_type":"encodec","num_filters":4,"hidden_size":16,"codebook_dim":16,"codebook_size":64,"num_lstm_layers":1`
	decoder := `"model_type":"musicgen_decoder","hidden_size":64,"num_hidden_layers":1,"num_attention_heads":4,"ffn_dim":64,"vocab_size":64,"pad_token_id":63,"bos_token_id":63`
	for name, c := range map[string]struct {
		config string
		inputs [][]int
	}{
		"a codec whose padding is in its buffers": {`{` + codec + `}`, [][]int{{2, 1, 4800}}},
		"codes beside text":                       {`{"model_type":"kyutai_speech_to_text",` + small + `,"num_codebooks":4,"codebook_vocab_size":50,"ffn_dim":128,"audio_bos_token_id":40,"audio_pad_token_id":41,"codec_config":{"model_type":"mimi"}}`, [][]int{{2, 16, 5}, {2, 16}}},
		"text in, codes out": {`{"model_type":"musicgen","text_encoder":{"model_type":"t5","d_model":64,"d_ff":64,"num_layers":1,"num_heads":2,"d_kv":16},"audio_encoder":{` + codec + `},"decoder":{` + decoder + `}}`,
			[][]int{{2, 16}, {8, 8}, {2, 8, 4}}},
		"spectrograms one behind the other": {`{"model_type":"qwen2_5_omni_audio_encoder","d_model":32,"encoder_layers":1,"encoder_attention_heads":2,"encoder_ffn_dim":64,"num_mel_bins":16,"output_dim":32,"n_window":50}`, [][]int{{16, 9600}, {2}}},
		"what a mask selects": {`{"model_type":"fastspeech2_conformer","hidden_size":32,"vocab_size":20,"num_mel_bins":8,"encoder_layers":1,"decoder_layers":1,"encoder_num_attention_heads":2,"decoder_num_attention_heads":2,
			"encoder_linear_units":32,"decoder_linear_units":32,"speech_decoder_postnet_units":16,"pitch_predictor_layers":2,"energy_predictor_layers":2}`, [][]int{{2, 16}, {2, 64, 8}, {2, 16}, {2, 16, 1}, {2, 16, 1}}},
		"keys and values of another model": {`{"model_type":"gemma4_assistant","backbone_hidden_size":48,"text_config":{` + small + `,"global_head_dim":32,"hidden_size_per_layer_input":0,"vocab_size_per_layer_input":0,"layer_types":["sliding_attention","full_attention"]}}`,
			[][]int{{2, 16, 96}, {2, 4, 16, 16}, {2, 4, 16, 16}, {2, 4, 16, 32}, {2, 4, 16, 32}}},
		"a number beside tensors": {`{"model_type":"blt_local_encoder",` + small + `,"hidden_size_global":128}`, [][]int{{2, 16}, {2, 16}}},
		"images in, as much text out as is to be written": {`{"model_type":"vision-encoder-decoder","pad_token_id":0,"decoder_start_token_id":0,"encoder":{"model_type":"vit","hidden_size":32,"num_hidden_layers":1,"num_attention_heads":2,"intermediate_size":64,"image_size":32,"patch_size":16},
			"decoder":{"model_type":"gpt2","n_embd":32,"n_layer":1,"n_head":2,"vocab_size":50,"is_decoder":true,"add_cross_attention":true}}`, [][]int{{2, 3, 32, 32}, {2, 8}}},
		"documents": {`{"model_type":"rag","n_docs":3,"architectures":["RagTokenForGeneration"],"question_encoder":{"model_type":"dpr","num_hidden_layers":1},"generator":{"model_type":"bart","d_model":32,"encoder_layers":1,"decoder_layers":1,"encoder_attention_heads":2,"decoder_attention_heads":2,"encoder_ffn_dim":32,"decoder_ffn_dim":32}}`, [][]int{{2, 16}, {6, 16}, {6, 16}, {2, 3}, {2, 8}}},
	} {
		g, err := r.Graph(job.Job{Batch: 2, Seq: 16, TargetSeq: 8, Frames: 4800}, []byte(c.config))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := given(t, g); !slices.EqualFunc(got, c.inputs, slices.Equal) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestModelsThatOnlyGenerateOrHideTheirBackwardSayWhatToPredict(t *testing.T) {
	t.Parallel()
	r := pictureReader(t)
	for config, why := range map[string]string{
		`{"model_type":"bark"}`:         "BarkModel has no forward pass of its own: it generates with several models that are trained one at a time; predict the script that trains one, as in plimsoll predict -- python train.py",
		`{"model_type":"vits"}`:         "transformers cannot train VitsModel: Training of VITS is not supported yet.",
		`{"model_type":"clvp_encoder"}`: "clvp_encoder is no model by itself: transformers has only its configuration; predict clvp, which it is a part of",
		`{"model_type":"nougat","encoder":{"model_type":"donut-swin"},"decoder":{"model_type":"mbart"}}`:                                                                         "models with such a configuration are of the type vision-encoder-decoder, which can be predicted",
		`{"model_type":"reformer","is_decoder":true,"axial_pos_shape":[4,4],"axial_pos_embds_dim":[16,48],"hidden_size":64,"attn_layers":["local"],"local_attn_chunk_length":8}`: "computes layers inside of _ReversibleFunction, a torch.autograd.Function that computes them once more in its backward",
	} {
		if _, err := r.Graph(job.Job{Batch: 2, Seq: 16}, []byte(config)); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", config, err)
		}
	}
}

// A graph in the cache is read again when the code changes that wrote it: all of that code has to be in the list.
func TestAllCodeThatReadsModelsDecidesAboutTheCache(t *testing.T) {
	t.Parallel()
	imports := regexp.MustCompile(`(?m)^\s*from \. import (.+)$|^\s*from \.(_\w+) import`)
	for _, name := range reading {
		code, err := fs.ReadFile(probe.Files(), path.Join("plimsoll", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range imports.FindAllStringSubmatch(string(code), -1) {
			for _, module := range strings.Split(m[1]+m[2], ", ") {
				if !slices.Contains(reading, module+".py") {
					t.Errorf("%s imports %s, which is not in the list", name, module)
				}
			}
		}
	}
}
