package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/script/probe/probetest"
)

// smallRun is a run of a small model with one long sample, which is in the eleventh batch.
func smallRun(t *testing.T, more ...string) []string {
	t.Helper()
	var text strings.Builder
	for i := range 80 {
		n := "40\n"
		if i == 42 {
			n = "700\n"
		}
		text.WriteString(n)
	}
	file := filepath.Join(t.TempDir(), "lengths.txt")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return append([]string{"predict", "--job", "testdata/predict/small-llama.json", "--lengths", file, "--sampler", "sequential", "--gpu", "h200"}, more...)
}

func TestAWholeRunDiesOnItsLongestBatch(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := invoke(t, "", smallRun(t, "--cap", "150MiB", "--json")...)
	var r report.Prediction
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != 3 {
		t.Fatalf("exit code %d, %v, %s", code, err, stderr)
	}
	if r.Run == nil || r.Run.FailsAt == nil || r.Run.FailsAt.Step != 11 || r.Run.FailsAt.Sample != 42 || r.Verdict != report.DoesNotFit || r.Fits {
		t.Fatalf("%s", stdout)
	}
	if f := r.Run.FailsAt; f.Shape[0] != 4 || f.Shape[1] != 700 || r.Run.Steps != 20 || r.Run.MaxAllocated <= 150<<20 || r.Run.Limited.Reserved > 150<<20 {
		t.Errorf("%s", stdout)
	}
	completes := false
	for _, remedy := range r.Run.Remedies {
		completes = completes || remedy.Completes
	}
	if !completes {
		t.Errorf("nothing makes it safe: %+v", r.Run.Remedies)
	}
	if code, stdout, stderr = invoke(t, "", smallRun(t)...); code != 0 || !strings.Contains(stdout, "Fits: the run completes") {
		t.Errorf("on a free card: exit code %d\n%s%s", code, stdout, stderr)
	}
}

func TestWholeRunsRefuseClearly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code int
		want string
		args []string
	}{
		"no such file":           {4, "no-such-file", []string{"--lengths", "no-such-file"}},
		"no such distribution":   {2, "not a distribution", []string{"--lengths", "poisson:4"}},
		"a sampler's typo":       {2, "did you mean", []string{"--lengths", "constant:40", "--sampler", "randon"}},
		"epochs of nothing":      {2, "--steps", []string{"--lengths", "constant:40", "--epochs", "2"}},
		"tokens without number":  {2, "tokens", []string{"--lengths", "constant:40", "--sampler", "tokens"}},
		"a data set's typo":      {2, "column=", []string{"--lengths", "dataset:x,colum=y"}},
		"steps alone":            {2, "--lengths", []string{"--steps", "10"}},
		"evaluation alone":       {2, "--lengths", []string{"--eval-lengths", "constant:40"}},
		"whole run of no script": {2, "command", []string{"--whole-run"}},
		"several cards":          {2, "one card", []string{"--lengths", "constant:40", "--gpus", "2"}},
		"negative steps":         {2, "--steps", []string{"--lengths", "constant:40", "--steps", "-1"}},
	} {
		args := append([]string{"predict", "--job", "testdata/predict/small-llama.json"}, c.args...)
		if code, stdout, stderr := invoke(t, "", args...); code != c.code || !strings.Contains(stderr, c.want) || stdout != "" {
			t.Errorf("%s: exit code %d (want %d), stderr %q (want %q)", name, code, c.code, stderr, c.want)
		}
	}
}

func TestADrawnRunWithEvaluationAndAccumulation(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := invoke(t, "", "predict", "--job", "testdata/predict/small-llama.json", "--lengths", "lognormal:60,0.6,max=300", "--steps", "60", "--orders", "2",
		"--accumulate", "4", "--eval-lengths", "uniform:20,400", "--eval-batch", "8", "--eval-every", "20", "--gpu", "l4", "--json")
	var r report.Prediction
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v, %s", code, err, stderr)
	}
	if r.Run.Steps != 60 || r.Run.Evaluated != 3 || r.Run.Orders != 2 || r.Run.Failing != 0 || r.Verdict != report.Fits || len(r.Run.Curve) == 0 {
		t.Errorf("%s", stdout)
	}
}

// TestTheWholeRunOfAScript predicts scripts with their own loaders: two epochs of 21 samples of many lengths in batches of four, an evaluation after each; and
// images, whose batches have no length.
func TestTheWholeRunOfAScript(t *testing.T) {
	t.Parallel()
	python := probetest.Warm(t)
	scripts := filepath.Join("..", "script", "capture", "testdata")
	text := runs(t, nil, "predict", "--whole-run", "--epochs", "2", "--gpu", "l4", "--json", "--follow", "1h", "--", python, filepath.Join(scripts, "lengths.py"))
	text.wants(t, 0)
	var r report.Prediction
	if err := json.Unmarshal([]byte(text.stdout), &r); err != nil {
		t.Fatal(err, text.stdout)
	}
	if r.Run == nil || r.Run.Steps != 12 || r.Run.Evaluated != 2 || r.Run.Longest != 25 || r.Verdict != report.Fits || r.Run.Orders != 1 {
		t.Errorf("%s", text.stdout)
	}
	images := runs(t, nil, "predict", "--whole-run", "--steps", "20", "--gpu", "l4", "--json", "--follow", "1h", "--", python, filepath.Join(scripts, "vision.py"), "-b", "8")
	images.wants(t, 0)
	r = report.Prediction{}
	if err := json.Unmarshal([]byte(images.stdout), &r); err != nil {
		t.Fatal(err, images.stdout)
	}
	if r.Run == nil || r.Run.Steps != 20 || r.Run.Longest != 0 || r.Verdict != report.Fits {
		t.Errorf("%s", images.stdout)
	}
}

func TestALongRunIsSimulatedInFewerOrders(t *testing.T) {
	t.Parallel()
	for batches, want := range map[int]int{0: 8, 100: 8, 2500: 8, 4000: 5, 10_000: 2, 1_000_000: 2} {
		if got := fewerOrders(batches); got != want {
			t.Errorf("%d batches: %d orders, want %d", batches, got, want)
		}
	}
}
