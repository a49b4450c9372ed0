package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/gpu"
	"github.com/plimsoll/plimsoll/internal/live/watch"
	"github.com/plimsoll/plimsoll/internal/script/probe/probetest"
	"github.com/plimsoll/plimsoll/internal/units"
)

// h200With is a card with so much of its memory free.
func h200With(free units.Bytes) watch.Card {
	return watch.Card{ID: "GPU-0", Instance: -1, Name: "NVIDIA H200", Total: 140 * units.GiB, Free: free}
}

// beside is what an H200 has to have free for PyTorch to hold so much there beside the context.
func beside(t *testing.T, held units.Bytes) units.Bytes {
	t.Helper()
	card, err := gpu.Find("h200")
	if err != nil {
		t.Fatal(err)
	}
	return card.Context + held
}

// runsOn carries out a command line on a machine that is said to have these cards.
func runsOn(t *testing.T, cards []watch.Card, environ []string, args ...string) ran {
	t.Helper()
	var stdout, stderr bytes.Buffer
	env := Env{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Getenv: os.Getenv, Cards: func() []watch.Card { return cards },
		Environ: func() []string { return append(os.Environ(), environ...) }}
	code := Run(context.Background(), env, args)
	return ran{code, stdout.String(), stderr.String()}
}

func TestARunStartsWithTheMildestChangeThatIsPredictedToFit(t *testing.T) {
	t.Parallel()
	python := probetest.Warm(t)
	script := filepath.Join("testdata", "fit", "foreseen.py")
	for _, c := range []struct {
		name    string
		room    units.Bytes
		environ []string
		args    []string
		wants   []string
	}{
		{"fits", 8 * units.GiB, nil, []string{"16", "256"}, []string{"GiB free: it fits as it is."}},
		{"a split", beside(t, 170*units.MiB), nil, []string{"16", "256"}, []string{"GiB free; starting with micro-batch ", "it ran with: micro-batch ", "seen in effect: "}},
		{"the script's own cap", 100 * units.GiB, []string{"CAP_MIB=170"}, []string{"16", "256"}, []string{"GiB free; starting with micro-batch ", "seen in effect: "}},
		{"one long sample", beside(t, 170*units.MiB), nil, []string{"1", "4096"}, []string{"starting with activation checkpointing", "seen in effect: checkpointing of 4 blocks"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			command := append([]string{"--", python, script}, c.args...)
			untouched := runs(t, nil, append([]string{"run", "--record", "off"}, command...)...)
			got := runsOn(t, []watch.Card{h200With(c.room)}, c.environ, append([]string{"run", "--fit"}, command...)...)
			got.wants(t, 0, c.wants...)
			if n := strings.Count(got.stdout, "model made"); n != 1 {
				t.Errorf("the capture's output shows: %d models made", n)
			}
			if said := strings.Count(got.stderr, "predicted peak"); said != 1 {
				t.Errorf("%d predictions:\n%s", said, got.stderr)
			}
			if far := furthest(t, untouched.numbers(t), got.numbers(t)); far > 1e-6 {
				t.Errorf("parameters differ by up to %g", far)
			}
		})
	}
}

func TestWhatCannotBeForeseenIsSaidAndRunsAllTheSame(t *testing.T) {
	t.Parallel()
	python := probetest.Warm(t)
	got := runsOn(t, []watch.Card{h200With(units.GiB)}, nil, "run", "--fit", "--", python, filepath.Join("testdata", "fit", "plain.py"))
	got.wants(t, 0, "plimsoll: no prediction: it puts no model on the GPU. Starting the run without one.\n")
	if got.numbers(t) == nil {
		t.Error("it did not run")
	}
	command := []string{"--", "sh", "-c", "echo ran; exit 5"}
	got = runsOn(t, []watch.Card{h200With(units.GiB)}, nil, append([]string{"run", "--fit"}, command...)...)
	got.wants(t, 5, "no prediction: the command ended with code 5 and never imported torch")
	if got.stdout != "ran\n" {
		t.Errorf("stdout %q", got.stdout)
	}
	blind := runsOn(t, []watch.Card{h200With(units.GiB)}, nil, append([]string{"run", "--fit", "--no-predict"}, command...)...)
	if blind.wants(t, 5); strings.Contains(blind.stderr, "prediction") {
		t.Errorf("it was predicted unasked:\n%s", blind.stderr)
	}
}

func TestARefusedPlanIsReplacedByAnotherThatIsPredictedToFit(t *testing.T) {
	t.Parallel()
	python := probetest.Warm(t)
	source, err := os.ReadFile(filepath.Join("testdata", "fit", "foreseen.py"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "normalised.py")
	text := strings.Replace(string(source), "self.embed, self.head =", "self.norm = nn.BatchNorm1d(width)\n        self.embed, self.head =", 1)
	text = strings.Replace(text, "return self.head(x)", "return self.head(self.norm(x.transpose(1, 2)).transpose(1, 2))", 1)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	got := runsOn(t, []watch.Card{h200With(beside(t, 175*units.MiB))}, nil, "run", "--fit", "--", python, path, "16", "256")
	got.wants(t, 0, "starting with micro-batch", "micro-batches left alone: BatchNorm1d", "starting with activation checkpointing", "seen in effect: checkpointing of 4 blocks")
}
