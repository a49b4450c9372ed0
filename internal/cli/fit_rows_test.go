package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/report"
)

// The title of a plan with a quantized base says so.
func TestTheTitleSaysFourBits(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := invoke(t, "", with(fitSmall[:len(fitSmall)-1], "--lora-rank", "16", "--base-bits", "4")...)
	if code != 0 || !strings.Contains(stdout, "4-bit base") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}

func TestWaysThatAreNotPredictedAreRefusedWithWhatToAskInstead(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{"hsdp": "a multiple of them", "context-parallel": "--context 2,4 --write torchtitan", "EP": "torchtitan alone has expert parallelism"} {
		runs(t, nil, with(fitSmall[:len(fitSmall)-1], "--gpus", "8", "--sharding", word)...).wants(t, 2, want)
	}
	for word, want := range map[string]string{"unsloth": "--write trl"} {
		runs(t, nil, with(fitSmall[:len(fitSmall)-1], "--write", word)...).wants(t, 2, want)
	}
}

// What PyTorch may reserve is a limit for it, not memory that somebody else holds.
func TestACapDoesNotAddToThePeak(t *testing.T) {
	t.Parallel()
	peak := func(more ...string) report.PredictedPeak {
		_, stdout, stderr := invoke(t, "", with(fitSmall[:len(fitSmall)-1], append(more, "--json")...)...)
		var fit report.Fit
		if err := json.Unmarshal([]byte(stdout), &fit); err != nil || len(fit.Plans) == 0 {
			t.Fatalf("%v %s", err, strings.TrimSpace(stderr))
		}
		return fit.Plans[0].Peak
	}
	if all, capped := peak(), peak("--cap", "100GiB"); all != capped {
		t.Errorf("%+v under a cap, %+v without", capped, all)
	}
}

// Products with a base in four bits run in the type of the plan: bf16 is faster than fp32.
func TestQLoRAInSixteenBitsIsFaster(t *testing.T) {
	t.Parallel()
	step := func(precision string) float64 {
		args := []string{"fit", "--config", llamaConfig, "--seq", "512", "--effective-batch", "8", "--gpu", "rtx-4090", "--lora-rank", "16", "--base-bits", "4", "--micro-batch", "8", "--checkpointing", "none"}
		_, stdout, stderr := invoke(t, "", with(args, "--precision", precision, "--json")...)
		var fit report.Fit
		if err := json.Unmarshal([]byte(stdout), &fit); err != nil || len(fit.Plans) == 0 {
			t.Fatalf("%v %s", err, strings.TrimSpace(stderr))
		}
		return fit.Plans[0].StepMS
	}
	if half, full := step("bf16"), step("fp32"); half > full*9/10 {
		t.Errorf("%g ms in bf16, %g ms in fp32", half, full)
	}
}

// With hsdp each machine of eight cards has a copy: a card needs what fsdp2 on eight needs, however many there are.
func TestCopiesOnEveryMachineNeedWhatOneMachineNeeds(t *testing.T) {
	t.Parallel()
	first := func(more ...string) (report.Plan, string) {
		args := with([]string{"fit", "--config", llamaConfig, "--seq", "512", "--precision", "amp-bf16", "--gpu", "h200", "--micro-batch", "1", "--checkpointing", "none", "--write", "fsdp2", "--json"}, more...)
		_, stdout, stderr := invoke(t, "", args...)
		var fit report.Fit
		if err := json.Unmarshal([]byte(stdout), &fit); err != nil || len(fit.Plans) == 0 || fit.Written == nil {
			t.Fatalf("%v %s", err, strings.TrimSpace(stderr))
		}
		return fit.Plans[0], fit.Written.Text
	}
	one, _ := first("--gpus", "8", "--effective-batch", "8", "--sharding", "fsdp2")
	copies, text := first("--gpus", "32", "--effective-batch", "32", "--sharding", "hsdp")
	if one.Peak != copies.Peak || copies.StepMS < one.StepMS {
		t.Errorf("%+v, %g ms on one machine, %+v, %g ms on four", one.Peak, one.StepMS, copies.Peak, copies.StepMS)
	}
	if !strings.Contains(text, `(4, 8), mesh_dim_names=("replicate", "shard")`) {
		t.Error(text)
	}
}
