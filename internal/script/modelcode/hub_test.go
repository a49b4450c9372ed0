package modelcode

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/job"
)

// put writes a file, with the folders it lies in.
func put(t *testing.T, text string, path ...string) string {
	t.Helper()
	name := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestAPipelineIsThePartThatIsTrained(t *testing.T) {
	t.Parallel()
	hub := t.TempDir()
	env := []string{"HF_HUB_CACHE=" + hub}
	snapshot := filepath.Join(hub, "models--a--sd", "snapshots", "1")
	unet := put(t, "{}", snapshot, "unet", "config.json")
	put(t, "{}", snapshot, "vae", "config.json")
	put(t, "{}", snapshot, "text_encoder", "config.json")
	if got, err := Locate("a/sd", env); err != nil || got.Path != unet || got.Part != "unet" {
		t.Errorf("%+v, %v", got, err)
	}
	index := put(t, "{}", snapshot, "model_index.json")
	for _, name := range []string{"a/sd", snapshot, index} {
		if got, err := Locate(name, env); err != nil || got.Path != unet {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if got, err := Locate(filepath.Join(snapshot, "vae"), env); err != nil || got.Path != filepath.Join(snapshot, "vae", "config.json") || got.Part != "" {
		t.Errorf("a part by its folder: %+v, %v", got, err)
	}
}

func TestAModelOfTimmNeedsNoFile(t *testing.T) {
	t.Parallel()
	hub := t.TempDir()
	env := []string{"HF_HUB_CACHE=" + hub}
	for _, name := range []string{"timm:resnet50.a1_in1k", "timm/resnet50.a1_in1k", "hf-hub:timm/resnet50.a1_in1k"} {
		got, err := Locate(name, env)
		lib, model := hfconfig.LibraryOf(got.Config)
		if err != nil || lib != hfconfig.Timm || model != "resnet50.a1_in1k" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	config := put(t, `{"architecture":"resnet50"}`, hub, "models--timm--resnet50.a1_in1k", "snapshots", "1", "config.json")
	if got, err := Locate("timm/resnet50.a1_in1k", env); err != nil || got.Path != config {
		t.Errorf("in the cache: %+v, %v", got, err)
	}
	var absent NotCached
	if _, err := Locate("resnet50", env); !errors.As(err, &absent) || !strings.Contains(err.Error(), "timm:resnet50") {
		t.Errorf("without timm: in front: %v", err)
	}
}

func TestAnAdapterIsItsBaseModelAndItsSettings(t *testing.T) {
	t.Parallel()
	hub, dir := t.TempDir(), t.TempDir()
	env := []string{"HF_HUB_CACHE=" + hub}
	put(t, `{"peft_type":"LORA","base_model_name_or_path":"a/base","r":16,"lora_dropout":0.05,"use_dora":true,"target_modules":["q_proj","up_proj"],"modules_to_save":["lm_head"]}`, dir, "adapter_config.json")
	var absent NotCached
	if _, err := Locate(dir, env); !errors.As(err, &absent) || absent.Name != "a/base" {
		t.Errorf("a base that is not here: %v", err)
	}
	base := put(t, "{}", hub, "models--a--base", "snapshots", "1", "config.json")
	for _, name := range []string{dir, filepath.Join(dir, "adapter_config.json")} {
		got, err := Locate(name, env)
		if err != nil || got.Path != base || got.Adapter == nil {
			t.Fatalf("%s: %+v, %v", name, got, err)
		}
		if a := got.Adapter; a.Rank != 16 || !a.DoRA || a.Dropout != 0.05 || !slices.Equal(a.Targets, []string{"q_proj", "up_proj"}) || !slices.Equal(a.Whole, []string{"lm_head"}) {
			t.Errorf("%+v", a)
		}
	}
	for text, want := range map[string]string{
		`{"peft_type":"IA3","base_model_name_or_path":"a/base"}`:                                   "peft_type",
		`{"peft_type":"LORA","r":8}`:                                                               "--lora-rank 8",
		`{"peft_type":"LORA","r":0,"base_model_name_or_path":"a/base"}`:                            "r is 0",
		`{"peft_type":"LORA","r":8,"base_model_name_or_path":"a/base","target_modules":".*_proj"}`: "regular expression",
		`[1]`: "not the configuration of an adapter",
	} {
		put(t, text, dir, "adapter_config.json")
		if _, err := Locate(dir, env); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	put(t, `{"peft_type":"LORA","r":8,"base_model_name_or_path":"a/base","target_modules":"all-linear"}`, dir, "adapter_config.json")
	if got, err := Locate(dir, env); err != nil || !slices.Equal(got.Adapter.Targets, []string{"all-linear"}) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestWhatIsNoModelIsSaid(t *testing.T) {
	t.Parallel()
	hub, dir := t.TempDir(), t.TempDir()
	env := []string{"HF_HUB_CACHE=" + hub}
	put(t, "{}", hub, "models--Qwen--Qwen3-8B", "snapshots", "1", "config.json")
	if _, err := Locate("Qwen/Qwen3-8b-", env); err == nil || !strings.Contains(err.Error(), "Did you mean Qwen/Qwen3-8B") {
		t.Errorf("a typo: %v", err)
	}
	if _, err := Locate(put(t, "GGUF\x03\x00", dir, "q4.gguf"), env); err == nil || !strings.Contains(err.Error(), "GGUF") {
		t.Errorf("a GGUF file: %v", err)
	}
	var none NoConfig
	if _, err := Locate(put(t, "x", dir, "pytorch_model.bin"), env); !errors.As(err, &none) || none.Dir != dir {
		t.Errorf("weights without a configuration: %v", err)
	}
}

func TestEveryLibraryHasAPythonOfItsOwn(t *testing.T) {
	t.Parallel()
	r, dir := reader(t, `case "$3" in diffusers) echo diffusers >&2; exit 1;; esac; echo '{"torch":"2.11.0","version":"1.0","site":"/nowhere"}'`, "")
	for i, config := range []string{`{"model_type":"x"}`, `{"architecture":"resnet50"}`, `{"architecture":"resnet50"}`} {
		if _, err := r.Graph(job.Job{Batch: 2, Seq: 8}, []byte(config)); err != nil || asked(dir) != min(i+1, 2) {
			t.Errorf("%s: %v, asked %d times", config, err, asked(dir))
		}
	}
	if _, err := r.Graph(job.Job{Batch: 2}, []byte(`{"_class_name":"UNet2DModel"}`)); !errors.Is(err, ErrNoPython) || !strings.Contains(err.Error(), "pip install torch diffusers") {
		t.Errorf("without diffusers: %v", err)
	}
}
