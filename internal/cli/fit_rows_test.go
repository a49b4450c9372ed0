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
	for word, want := range map[string]string{"hsdp": "--sharding fsdp2", "context-parallel": "lower bound", "EP": "depends on the data"} {
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
