package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/report"
)

// Rows of what stood in the way of new users, by their numbers (docs/measurements/2026-11-16-new-users.md).

// llama8B writes the configuration of Llama-3-8B as it is published: its weights are bfloat16.
func llama8B(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.json")
	text := `{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
 "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192, "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "tie_word_embeddings": false, "torch_dtype": "bfloat16"}`
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// Row 14: a model and a card are a question. It is answered in the configuration's own precision, for full fine-tuning, LoRA and QLoRA.
func TestRow14AModelAndACardAreAnsweredForFullLoRAAndQLoRA(t *testing.T) {
	t.Parallel()
	model := llama8B(t)
	for _, args := range [][]string{{"fit", model, "--gpu", "4090"}, {"fit", model, "--seq", "2048", "--gpu", "4090"}} {
		r := plimsoll(t, "", args...)
		text := strings.Join(strings.Fields(r.stdout), " ")
		for _, want := range []string{"· bf16 ·", "full 6", "LoRA ", "QLoRA ", "longest sample", "LoRA is the first that fits", "--write trainer"} {
			if r.code != exitOK || !strings.Contains(text, want) {
				t.Errorf("plimsoll %v: exit %d, no %q in\n%s%s", args[1:], r.code, want, r.stdout, r.stderr)
			}
		}
	}
	var fit report.Fit
	if err := json.Unmarshal([]byte(plimsoll(t, "", "fit", model, "--gpu", "4090", "--json").stdout), &fit); err != nil || len(fit.Methods) != 3 {
		t.Fatalf("%d methods: %v", len(fit.Methods), err)
	}
	full, lora, qlora := fit.Methods[0], fit.Methods[1], fit.Methods[2]
	if full.Fits || !lora.Fits || !qlora.Fits || !(full.Needs > lora.Needs && lora.Needs > qlora.Needs) || qlora.LongestSeq < lora.LongestSeq || lora.LongestSeq < 2048 {
		t.Errorf("%+v", fit.Methods)
	}
	if fit.Plans[0].LoRARank == 0 || fit.Plans[0].Precision != "bf16" {
		t.Errorf("%+v", fit.Plans[0])
	}
}

// A model and a card are a question for every kind of model: what its task needs beside them is assumed, and said.
func TestAModelAndACardAreAQuestionForEveryTask(t *testing.T) {
	t.Parallel()
	for config, assumed := range map[string]string{
		`{"model_type": "t5", "num_layers": 2}`:                    "samples of 512 tokens (--seq), targets of 128 tokens (--target-seq), an effective batch of 16 samples",
		`{"model_type": "whisper", "encoder_layers": 2}`:           "targets of 128 tokens (--target-seq)",
		`{"model_type": "vit", "num_hidden_layers": 2}`:            "an effective batch of 16 samples",
		`{"model_type": "segformer"}`:                              "images of 224 × 224 pixels (--image)",
		`{"model_type": "roberta", "num_hidden_layers": 2}`:        "samples of 510 tokens (--seq)", // two of 512 rows are for padding
		`{"model_type": "albert", "num_hidden_layers": 2}`:         "samples of 512 tokens (--seq)", // cannot be checkpointed
		`{"model_type": "convnext", "image_size": 224}`:            "an effective batch of 16 samples",
		`{"model_type": "bert", "num_hidden_layers": 2, "x": "é"}`: "samples of 512 tokens (--seq)",
	} {
		path := filepath.Join(t.TempDir(), "config.json")
		if err := os.WriteFile(path, []byte(config), 0o644); err != nil {
			t.Fatal(err)
		}
		r := plimsoll(t, "", "fit", path, "--gpu", "4090", "-v")
		if text := strings.Join(strings.Fields(r.stdout), " "); r.code != exitOK || !strings.Contains(text, assumed) {
			t.Errorf("%s: exit %d, no %q in\n%s%s", config, r.code, assumed, r.stdout, r.stderr)
		}
	}
}

// Row 16: what is said not to fit is not what a listed plan does: without checkpointing it says so, and nothing is refused that is listed.
func TestRow16WhatDoesNotFitIsNotOneOfThePlans(t *testing.T) {
	t.Parallel()
	thin := filepath.Join(t.TempDir(), "config.json") // nearly all of its memory are activations
	text := `{"model_type": "llama", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 4096,
 "max_position_embeddings": 8192, "tie_word_embeddings": true}`
	if err := os.WriteFile(thin, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	told := 0
	for _, memory := range []string{"6", "8", "10"} {
		args := []string{"fit", "--config", thin, "--seq", "4096", "--effective-batch", "16", "--precision", "bf16", "--memory", memory, "--offload", "none", "--json"}
		var fit report.Fit
		if err := json.Unmarshal([]byte(plimsoll(t, "", args...).stdout), &fit); err != nil || len(fit.Plans) == 0 {
			t.Fatalf("%s GiB: %v", memory, err)
		}
		for _, a := range fit.Alternatives {
			one := strings.Contains(a.What, "one sample at a time")
			if one && !strings.Contains(a.What, "without checkpointing") {
				t.Errorf("%s GiB: %s: %s", memory, a.What, a.Why)
			}
			if !one || strings.Contains(a.Why, "×") {
				continue
			}
			told++
			for _, p := range fit.Plans {
				if p.Fits && p.MicroBatch == 1 && p.Checkpointing == "none" {
					t.Errorf("%s GiB: %s: %s, but plan %+v", memory, a.What, a.Why, p.Setup)
				}
			}
		}
	}
	if told == 0 {
		t.Error("one sample at a time always fits: nothing was tested")
	}
}

// Row 20: without a card the answer is what the job needs, not whether it fits on a card that nobody named.
func TestRow20WithoutACardTheNeedIsToldAlone(t *testing.T) {
	t.Parallel()
	r := plimsoll(t, "", "predict", "--config", llamaConfig, "--batch", "64", "--seq", "2048")
	text := strings.Join(strings.Fields(r.stdout), " ")
	if r.code != exitOK || !strings.Contains(text, "no card named") || !strings.Contains(text, "Needs 1.2 TiB") || !strings.Contains(text, "--gpu") {
		t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	for _, wrong := range []string{"does not fit", "139.", "too much"} {
		if strings.Contains(text, wrong) {
			t.Errorf("%q in\n%s", wrong, r.stdout)
		}
	}
	var p report.Prediction
	if err := json.Unmarshal([]byte(plimsoll(t, "", "predict", "--config", llamaConfig, "--batch", "64", "--seq", "2048", "--json").stdout), &p); err != nil || p.Peak.Allocated == 0 {
		t.Errorf("%v %+v", err, p.Peak)
	}
}
