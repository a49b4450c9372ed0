package cli

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/testkit/goldentest"
)

var (
	fitLlama  = []string{"fit", "--config", llamaConfig, "--seq", "2048", "--effective-batch", "16"}
	fitResNet = []string{"fit", "--graph", graphs + "resnet50.json.gz", "--loss", "cross-entropy", "--optimizer", "sgdm", "--image", "224"}
)

func with(args []string, more ...string) []string {
	return append(append([]string(nil), args...), more...)
}

func TestFitScreens(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code int
		args []string
	}{
		"same-training": {0, with(fitLlama, "--precision", "amp-bf16", "--gpu", "a100-40g")},
		"nothing-fits":  {3, with(fitLlama, "--precision", "amp-bf16", "--gpu", "rtx-4090")},
		"numerics":      {0, with(fitLlama, "--gpu", "l4", "--allow", "numerics")},
		"several-cards": {0, with(fitLlama, "--precision", "bf16", "--gpu", "rtx-4090", "--gpus", "4")},
		"cut":           {0, with(fitLlama, "--precision", "bf16", "--gpu", "rtx-4090", "--gpus", "4", "--tensor", "2", "--stages", "1,2", "--checkpointing", "none", "--micro-batch", "1")},
		"on-the-host":   {0, with(fitLlama, "--precision", "amp-bf16", "--gpu", "rtx-4090", "--offload", "activations,both", "--micro-batch", "1,2")},
		"write-cut":     {0, with(fitLlama, "--precision", "bf16", "--gpu", "rtx-4090", "--gpus", "2", "--tensor", "2", "--checkpointing", "none", "--micro-batch", "1", "--write", "torch")},
		"graph":         {0, with(fitResNet, "--effective-batch", "256", "--precision", "fp32,amp-bf16,bf16", "--gpu", "h200", "--memory", "12GiB")},
		"write-trainer": {0, with(fitLlama, "--precision", "amp-bf16", "--gpu", "h200", "--write", "trainer")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := invoke(t, "", c.args...)
			if code != c.code || stderr != "" {
				t.Errorf("exit code %d, want %d; stderr %q", code, c.code, stderr)
			}
			goldentest.Check(t, filepath.Join("testdata", "fit", name+".txt"), []byte(stdout))
			for line := range strings.Lines(stdout) {
				if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 && !strings.HasPrefix(name, "write-") {
					t.Errorf("line of %d columns: %s", n, line)
				}
			}
		})
	}
}

func TestFitJSONHasTheFieldsOfItsContract(t *testing.T) {
	t.Parallel()
	args := with(fitLlama, "--gpu", "h200", "--memory", "24GiB", "--micro-batch", "1,2", "--precision", "fp32,amp-bf16,bf16", "--checkpointing", "none,full",
		"--optimizer", "adamw", "--json")
	code, stdout, stderr := invoke(t, "", args...)
	if code != 0 {
		t.Fatalf("exit code %d, stderr %s", code, stderr)
	}
	var fields map[string]any
	if err := json.Unmarshal([]byte(stdout), &fields); err != nil {
		t.Fatal(err)
	}
	first := fields["plans"].([]any)[0].(map[string]any)
	for _, name := range []string{"micro_batch", "accumulate", "precision", "checkpointing", "optimizer", "peak", "step_ms", "fits", "changes_numerics", "why"} {
		if _, ok := first[name]; !ok {
			t.Errorf("no field %s", name)
		}
	}
	var fit report.Fit
	if err := json.Unmarshal([]byte(stdout), &fit); err != nil || fit.Schema != report.FitSchema || fit.Considered < 12 {
		t.Errorf("schema %q, %d considered, error %v", fit.Schema, fit.Considered, err)
	}
	for _, p := range fit.Plans {
		if p.MicroBatch*p.Accumulate != 16 {
			t.Errorf("%d × %d is not the effective batch", p.MicroBatch, p.Accumulate)
		}
		if p.Optimizer != "adamw" || p.Checkpointing == "selective" || p.MicroBatch > 2 {
			t.Errorf("a plan outside of the limits: %+v", p)
		}
	}
}

func TestFitKeepsNumericsUnlessAllowed(t *testing.T) {
	t.Parallel()
	_, stdout, _ := invoke(t, "", with(fitLlama, "--gpu", "h200", "--json")...)
	var fit report.Fit
	if err := json.Unmarshal([]byte(stdout), &fit); err != nil {
		t.Fatal(err)
	}
	for _, p := range fit.Plans {
		if p.ChangesNumerics || p.Precision != "fp32" || p.Optimizer.Kind() != "adamw" {
			t.Errorf("a plan that changes numerics: %s %s", p.Precision, p.Optimizer)
		}
	}
	if fit.Numerics == nil || !fit.Numerics.ChangesNumerics {
		t.Error("what --allow numerics would buy is not told")
	}
}

func TestFitRefusesClearly(t *testing.T) {
	t.Parallel()
	llama := []string{"--config", llamaConfig, "--seq", "64"}
	for name, c := range map[string]struct {
		code int
		want string
		args []string
	}{
		"no model":            {2, "no model", []string{"--effective-batch", "4"}},
		"no batch":            {2, "--batch", llama},
		"unknown card":        {2, "not in the catalogue", with(llama, "--effective-batch", "4", "--gpu", "rtx-4900")},
		"unknown axis":        {2, "did you mean full", with(llama, "--effective-batch", "4", "--checkpointing", "ful")},
		"unknown precision":   {2, "did you mean", with(llama, "--effective-batch", "4", "--precision", "amp-bf17")},
		"unknown optimizer":   {2, "did you mean adamw", with(llama, "--effective-batch", "4", "--optimizer", "adamww")},
		"no divisor":          {2, "none of the micro-batches", with(llama, "--effective-batch", "16", "--micro-batch", "3,5")},
		"zero micro-batch":    {2, "at least one", with(llama, "--effective-batch", "16", "--micro-batch", "0")},
		"negative effective":  {2, "at least 1", with(llama, "--effective-batch", "-1")},
		"cards do not divide": {2, "cannot be divided", with(llama, "--effective-batch", "16", "--gpus", "3")},
		"unknown sharding":    {2, "did you mean fsdp2", with(llama, "--effective-batch", "16", "--gpus", "2", "--sharding", "fsdp")},
		"no such cut":         {2, "cannot be divided", with(llama, "--effective-batch", "16", "--gpus", "4", "--tensor", "8")},
		"heads not divided":   {2, "does not divide", with(llama, "--effective-batch", "18", "--gpus", "3", "--tensor", "3")},
		"graph is not cut":    {2, "a graph cannot be split", with(fitResNet[1:], "--effective-batch", "16", "--gpus", "2", "--stages", "2")},
		"unknown offload":     {2, "did you mean activations", with(llama, "--effective-batch", "16", "--offload", "activation")},
		"no words for a cut":  {2, "--write torch", with(llama, "--effective-batch", "16", "--gpus", "2", "--tensor", "2", "--checkpointing", "none", "--write", "trainer")},
		"unknown permission":  {2, "numerics", with(llama, "--effective-batch", "16", "--allow", "everything")},
		"unknown format":      {2, "did you mean trainer", with(llama, "--effective-batch", "16", "--write", "trainr")},
		"graph checkpointing": {2, "checkpoint_modules", with(fitResNet[1:], "--effective-batch", "16", "--checkpointing", "full")},
		"no memory at all":    {2, "context", with(llama, "--effective-batch", "16", "--memory", "100MiB")},
		"missing file":        {4, "read the configuration", []string{"--config", "no-such.json", "--effective-batch", "4"}},
		"write what is not":   {3, "no plan to write", with(llama, "--effective-batch", "4", "--memory", "2GiB", "--write", "torch")},
	} {
		code, stdout, stderr := invoke(t, "", with([]string{"fit"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.want) || stdout != "" {
			t.Errorf("%s: exit code %d (want %d), stderr %q (want %q), stdout %q", name, code, c.code, stderr, c.want, stdout)
		}
	}
}

// What stood in the way of people who tried it, each as they typed it.
func TestFitAnswersWhatPeopleAsked(t *testing.T) {
	t.Parallel()
	plans := func(args ...string) report.Fit {
		t.Helper()
		_, stdout, stderr := invoke(t, "", with(fitLlama, append(args, "--json")...)...)
		var fit report.Fit
		if err := json.Unmarshal([]byte(stdout), &fit); err != nil {
			t.Fatalf("%v: %v %s", args, err, stderr)
		}
		return fit
	}
	for _, p := range plans("--optimizer", "adamw", "--precision", "bf16", "--allow", "numerics", "--gpu", "l4").Plans {
		if p.Optimizer.Kind() != "adamw" || p.Precision != "bf16" {
			t.Errorf("--optimizer adamw --precision bf16 is answered with %s %s", p.Optimizer, p.Precision)
		}
	}
	code, text, _ := invoke(t, "", with(fitLlama, "--precision", "bf16", "--lora-rank", "16", "--base-bits", "4", "--gpu", "rtx-4090", "--write", "trainer")...)
	for _, want := range []string{"LoraConfig(r=16", "load_in_4bit=True", "prepare_model_for_kbit_training"} {
		if code != 0 || !strings.Contains(text, want) {
			t.Errorf("QLoRA for the Trainer lacks %s (exit code %d):\n%s", want, code, text)
		}
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--precision", "bf16", "--gpus", "8", "--gpu", "a100-80g", "--write", "trainer"}, "per_device_train_batch_size"},
		{[]string{"--precision", "bf16", "--gpus", "8", "--gpu", "a100-80g", "--sharding", "zero3", "--write", "deepspeed"}, `"lr": "auto"`},
		{[]string{"--precision", "amp-bf16", "--gpus", "8", "--gpu", "a100-80g", "--sharding", "fsdp2", "--tensor", "1", "--stages", "1", "--write", "fsdp2"}, "MixedPrecisionPolicy(param_dtype=torch.bfloat16"},
		{[]string{"--precision", "amp-bf16", "--checkpointing", "full", "--gpu", "h200", "--write", "trainer"}, "gradient_checkpointing=True"},
	} {
		code, text, stderr := invoke(t, "", with(fitLlama, c.args...)...)
		if code != 0 || !strings.Contains(text, c.want) {
			t.Errorf("%v: exit code %d, no %q in\n%s%s", c.args, code, c.want, text, stderr)
		}
	}
	code, _, stderr := invoke(t, "", with(fitLlama, "--precision", "amp-bf16", "--checkpointing", "full", "--gpu", "h200", "--write", "accelerate")...)
	if code != 2 || !strings.Contains(stderr, "does not turn checkpointing on") {
		t.Errorf("checkpointing through Accelerate: exit code %d, %s", code, stderr)
	}
	_, text, _ = invoke(t, "", with(fitLlama, "--precision", "fp32", "--gpus", "2", "--gpu", "t4")...)
	if !strings.Contains(text, "each of 2 cards needs") {
		t.Errorf("two cards that are too small:\n%s", text)
	}
}
