package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/script/probe/probetest"
)

// ran is what a run left: its exit code and its two streams.
type ran struct {
	code           int
	stdout, stderr string
}

// runs carries out a command line in this process with the given additions to the environment.
func runs(t *testing.T, environ []string, args ...string) ran {
	t.Helper()
	var stdout, stderr bytes.Buffer
	env := Env{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Getenv: os.Getenv,
		Environ: func() []string { return append(os.Environ(), environ...) }}
	code := Run(context.Background(), env, args)
	return ran{code, stdout.String(), stderr.String()}
}

func (r ran) wants(t *testing.T, code int, stderr ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d\nstdout %s\nstderr %s", r.code, code, r.stdout, r.stderr)
	}
	for _, s := range stderr {
		if !strings.Contains(r.stderr, s) {
			t.Errorf("stderr lacks %q:\n%s", s, r.stderr)
		}
	}
}

// numbers reads the lists a script printed on its last line.
func (r ran) numbers(t *testing.T) [][]float64 {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	var all [][]float64
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &all); err != nil {
		t.Fatalf("the script printed no parameters: %v\nstdout %s\nstderr %s", err, r.stdout, r.stderr)
	}
	return all
}

func furthest(t *testing.T, a, b [][]float64) float64 {
	t.Helper()
	if len(a) != len(b) || len(a) == 0 {
		t.Fatalf("%d and %d tensors", len(a), len(b))
	}
	far := 0.0
	for i := range a {
		for j := range a[i] {
			far = max(far, math.Abs(a[i][j]-b[i][j]))
		}
	}
	return far
}

func TestSplitTrainingEndsWhereTheUntouchedOneDoes(t *testing.T) {
	t.Parallel()
	python := probetest.Warm(t)
	for _, c := range []struct {
		script    string
		tolerance float64
	}{
		{"plain.py", 1e-6}, {"accumulate.py", 1e-6}, {"scheduler.py", 1e-6}, {"clip.py", 1e-6}, {"accelerated.py", 1e-6},
		{"trainer.py", 1e-5}, {"trainer.py padded", 1e-5},
		{"amp.py", 2e-3}, // gradients of parts are rounded to bf16 before they are summed
		// What a loss counts differs from part to part: ignored targets, weights of classes, masks.
		{"ignored.py ignore,smoothed,weighted,masked,indexed,listed,batchmean,constant,summed", 1e-6}, {"accumulate_ignored.py", 1e-6},
	} {
		t.Run(c.script, func(t *testing.T) {
			t.Parallel()
			name, argument, _ := strings.Cut(c.script, " ")
			command := []string{python, filepath.Join("testdata", "fit", name), argument}
			untouched := runs(t, nil, append([]string{"run", "--record", "off", "--"}, command...)...)
			untouched.wants(t, 0)
			split := runs(t, nil, append([]string{"run", "--fit", "--split", "4", "--"}, command...)...)
			split.wants(t, 0, "it ran with: micro-batch", "seen in effect: ", "micro-batch")
			if far := furthest(t, untouched.numbers(t), split.numbers(t)); far > c.tolerance {
				t.Errorf("parameters differ by up to %g, more than %g", far, c.tolerance)
			}
		})
	}
}

func TestAScriptThatDrawsItsBatchesIsCalledInPartsAndEndsWhereTheUntouchedOneDoes(t *testing.T) {
	t.Parallel()
	python := probetest.Warm(t)
	path := filepath.Join("testdata", "fit", "drawn.py")
	for kind, c := range map[string]struct {
		flags []string
		same  float64
		says  string
	}{
		"outside": {[]string{"--parts", "4"}, 1e-6, "it ran with: the model called in 4 parts"},
		"inside":  {[]string{"--parts", "4"}, 1e-6, "gradients of 3 samples compared with the uncut call"},
		"summed":  {[]string{"--parts", "4"}, 1e-6, "the model called in 4 parts"},
		"blocks":  {[]string{"--parts", "4", "--checkpoint"}, 1e-6, "checkpointing of 2 blocks; the model called in 4 parts"},
		"oom":     {nil, 1e-6, "Starting again: the model called in 5 parts"},
		"mixes":   {[]string{"--parts", "4"}, 0, "calling the model in parts left alone: 3 samples at once and in two parts give gradients that differ by"},
		"norm":    {[]string{"--parts", "4"}, 0, "calling the model in parts left alone: batch norm"},
		"ignored": {[]string{"--parts", "4"}, 0, "some targets are negative"},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			alike := strings.Replace(kind, "oom", "outside", 1)
			untouched := runs(t, nil, "run", "--record", "off", "--", python, path, alike)
			cut := runs(t, nil, append(append([]string{"run", "--fit"}, c.flags...), "--", python, path, kind)...)
			cut.wants(t, 0, c.says)
			if far := furthest(t, untouched.numbers(t), cut.numbers(t)); far > c.same {
				t.Errorf("parameters differ by up to %g, more than %g", far, c.same)
			}
		})
	}
}

func TestCheckpointedBlocksGiveTheSameGradients(t *testing.T) {
	t.Parallel()
	python := probetest.Warm(t)
	script := filepath.Join("testdata", "fit", "blocks.py")
	plain := runs(t, nil, "run", "--", python, script)
	wrapped := runs(t, nil, "run", "--fit", "--checkpoint", "--", python, script)
	wrapped.wants(t, 0, "it ran with: activation checkpointing", "seen in effect: checkpointing of 3 blocks")
	if far := furthest(t, plain.numbers(t), wrapped.numbers(t)); far > 1e-7 {
		t.Errorf("gradients and parameters differ by up to %g", far)
	}
}

func TestAScriptThatASplitWouldChangeIsToldAndLeftAlone(t *testing.T) {
	t.Parallel()
	python := probetest.Warm(t)
	for script, why := range map[string]string{
		"batchnorm.py":           "micro-batches left alone: BatchNorm1d normalises over the batch",
		"sampler.py":             "micro-batches left alone: the sampler Hardest is the script's own",
		"tail.py":                "the last of an epoch has 2 samples for 4 parts",
		"ignored.py root":        "SqrtBackward0 between the loss and its reduction",
		"ignored.py two counts":  "numbers of elements that differ from part to part, each in its own way",
		"ignored.py mean within": "reduces a mean over the batch once more",
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			name, argument, _ := strings.Cut(script, " ")
			path := filepath.Join("testdata", "fit", name)
			untouched := runs(t, nil, "run", "--", python, path, argument)
			left := runs(t, nil, "run", "--fit", "--split", "4", "--", python, path, argument)
			left.wants(t, 0, why, name+":")
			if far := furthest(t, untouched.numbers(t), left.numbers(t)); far != 0 {
				t.Errorf("it was not left alone: parameters differ by %g", far)
			}
		})
	}
}

func TestARunThatDiesIsStartedAnewUntilItFits(t *testing.T) {
	t.Parallel()
	python := probetest.Warm(t)
	got := runs(t, nil, "run", "--fit", "--", python, filepath.Join("testdata", "fit", "toolarge.py"))
	got.wants(t, 0, "Starting again: micro-batch 8 × 2", "Starting again: micro-batch 4 × 4", "it ran with: micro-batch 4 × 4")
	if got.numbers(t) == nil {
		t.Error("it did not finish")
	}
}

func TestADeadRunIsExplainedAndKeepsItsCode(t *testing.T) {
	t.Parallel()
	python := probetest.Warm(t)
	report := t.TempDir()
	got := runs(t, nil, "run", "--report", report, "--", python, filepath.Join("testdata", "fit", "toolarge.py"))
	got.wants(t, 1, "torch.OutOfMemoryError: CUDA out of memory", "the record is kept in "+report)
	text, _ := filepath.Glob(filepath.Join(report, "rank0-*.txt"))
	if len(text) != 1 {
		t.Errorf("the traceback was not kept: %v", text)
	}
	data, err := os.ReadFile(filepath.Join(report, "run.json"))
	if err != nil || !strings.Contains(string(data), `"out_of_memory":true`) {
		t.Errorf("run.json: %s, %v", data, err)
	}
}
