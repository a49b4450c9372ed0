package cli

import (
	"encoding/json"
	"errors"
	"math"
	"path/filepath"
	"testing"

	"github.com/plimsoll/plimsoll/internal/script/probe/probetest"
)

// TestPeaksPredictedFromAScriptAreTheMeasuredOnes compares with max_memory_allocated of the same jobs on an H200 (PyTorch 2.11, transformers 5.17).
func TestPeaksPredictedFromAScriptAreTheMeasuredOnes(t *testing.T) {
	t.Parallel()
	python := probetest.Warm(t)
	for settings, measured := range map[string]float64{
		`{"batch": 2, "seq": 512, "optimizer": "adamw"}`:                                                     3491378176,
		`{"batch": 4, "seq": 1024, "optimizer": "adamw", "autocast": "bf16", "checkpointing": true}`:         4699938816,
		`{"batch": 6, "seq": 768, "optimizer": "adamw-fused", "param_dtype": "bf16", "checkpointing": true}`: 4173051904,
		`{"batch": 2, "seq": 1024, "optimizer": "adamw", "autocast": "bf16", "loop": "plain"}`:               4912340992,
		`{"batch": 2, "seq": 512, "optimizer": "adamw-loop", "accumulate": 2}`:                               3992283136,
	} {
		t.Run(settings, func(t *testing.T) {
			t.Parallel()
			got := runs(t, nil, "predict", "--gpu", "h200", "--json", "--follow", "1h", "--", python, filepath.Join("testdata", "capture", "gpt2.py"), settings)
			got.wants(t, 0)
			var prediction struct {
				Peak struct{ Allocated float64 }
			}
			if err := json.Unmarshal([]byte(got.stdout), &prediction); err != nil {
				t.Fatalf("%v\n%s\n%s", err, got.stdout, got.stderr)
			}
			if off := prediction.Peak.Allocated/measured - 1; math.Abs(off) > 0.005 {
				t.Errorf("predicted %.0f, measured %.0f: off by %.2f %%", prediction.Peak.Allocated, measured, 100*off)
			}
		})
	}
}

func TestACommandAndAJobFileContradictEachOther(t *testing.T) {
	t.Parallel()
	runs(t, nil, "predict", "--job", "job.json", "--", "python", "train.py").wants(t, 2, "not both")
	runs(t, nil, "predict", "train.py").wants(t, 2, "-- python train.py")
}

func TestReasonsKeepTheirColons(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		"":              "the step was not captured: /tmp/job.json: no optimizer",
		"/tmp/job.json": "the step was not captured: no optimizer",
	} {
		o := predictOptions{}
		o.JobFile = file
		if got := o.brief(errors.New("the step was not captured: /tmp/job.json: no optimizer (known: adamw, sgd)")); got != want {
			t.Errorf("job file %q: %q", file, got)
		}
	}
}
