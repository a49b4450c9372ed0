package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const namedLlama = `"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":128,"intermediate_size":256,"num_hidden_layers":2,"num_attention_heads":4,"vocab_size":512,"torch_dtype":"bfloat16"`

// cachedModels is a Hugging Face cache with a few models, as HF_HOME.
func cachedModels(t *testing.T) string {
	t.Helper()
	home := t.TempDir()
	for name, text := range map[string]string{
		"models--acme--plain/snapshots/1/config.json":        "{" + namedLlama + "}",
		"models--acme--four/snapshots/1/config.json":         "{" + namedLlama + `,"quantization_config":{"quant_method":"bitsandbytes","load_in_4bit":true}}`,
		"models--acme--gptq/snapshots/1/config.json":         "{" + namedLlama + `,"quantization_config":{"quant_method":"gptq","bits":4}}`,
		"models--acme--mxfp4/snapshots/1/config.json":        strings.Replace("{"+namedLlama+`,"quantization_config":{"quant_method":"mxfp4"}}`, `,"torch_dtype":"bfloat16"`, "", 1),
		"models--acme--lora/snapshots/1/adapter_config.json": `{"peft_type":"LORA","base_model_name_or_path":"acme/plain","r":16,"lora_dropout":0.1,"target_modules":["q_proj","o_proj"],"modules_to_save":["lm_head"]}`,
		"models--acme--sd/snapshots/1/unet/config.json":      `{"_class_name":"UNet2DConditionModel"}`,
	} {
		path := filepath.Join(home, "hub", filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return home
}

// at runs plimsoll with these models in the cache and no Python on the path.
func at(home, stdin string, args ...string) (code int, stdout, stderr string) {
	var out, talk bytes.Buffer
	env := Env{Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &talk, Getenv: func(string) string { return "" }, Environ: func() []string { return []string{"HF_HOME=" + home} }}
	code = Run(context.Background(), env, args)
	return code, out.String(), talk.String()
}

func TestAModelIsPredictedAsItWasSaved(t *testing.T) {
	t.Parallel()
	home := cachedModels(t)
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"acme/plain"}, []string{"bf16", "precision bf16 is the model's own"}},
		{[]string{"acme/four"}, []string{"saved in 4 bits (bitsandbytes)", "--lora-rank 16"}},
		{[]string{"acme/four", "--lora-rank", "8"}, []string{"4-bit base", "the frozen base has 4 bits"}},
		{[]string{"acme/gptq"}, []string{"saved quantized (gptq), which is not modelled", "counted in bf16"}},
		{[]string{"acme/mxfp4"}, []string{"bf16 ·", "Mxfp4Config(dequantize=True)"}},
		{[]string{"acme/lora"}, []string{"LoRA 16", "rank 16 beside acme/plain", "modules_to_save (lm_head) are not counted"}},
		{[]string{"acme/lora", "--lora-rank", "4"}, []string{"LoRA 4", "rank 4 beside"}},
	} {
		code, out, talk := at(home, "", append([]string{"predict", "--batch", "1", "--seq", "64", "--gpu", "4090"}, c.args...)...)
		out = strings.Join(strings.Fields(out), " ")
		for _, want := range c.want {
			if code != exitOK || !strings.Contains(out, want) {
				t.Errorf("%v: exit %d, nothing says %q:\n%s%s", c.args, code, want, out, talk)
			}
		}
	}
}

func TestAJobNamesItsModelAlone(t *testing.T) {
	t.Parallel()
	home := cachedModels(t)
	jobs := `{"id":"a","model":"acme/plain","batch":1,"seq":64}
{"id":"b","config_file":"acme/plain","batch":1,"seq":64}
{"id":"c","model":"acme/none","batch":1,"seq":64}
{"id":"d","batch":1
{"id":"e","model":"acme/lora","batch":1,"seq":64}
`
	code, out, talk := at(home, jobs, "predict", "--jobs", "-", "--gpu", "4090", "--json")
	if code == exitOK || strings.Count(out, `"fits":true`) != 3 || !strings.Contains(talk, "line 4") || !strings.Contains(talk, "hf download acme/none") {
		t.Errorf("exit %d\n%s\n%s", code, out, talk)
	}
}

func TestAModelWithoutItsLibrarySaysWhatToInstall(t *testing.T) {
	t.Parallel()
	home := cachedModels(t)
	for name, want := range map[string]string{"acme/sd": "pip install torch diffusers", "timm:resnet50": "pip install torch timm", "timm/resnet50.a1_in1k": "pip install torch timm"} {
		code, _, talk := at(home, "", "predict", name, "--batch", "1")
		if code != exitUnreadable || !strings.Contains(talk, want) {
			t.Errorf("%s: exit %d, %s", name, code, talk)
		}
	}
	if _, _, talk := at(home, "", "predict", "acme/plian", "--batch", "1", "--seq", "8"); !strings.Contains(talk, "Did you mean acme/plain") {
		t.Errorf("a typo: %s", talk)
	}
}
