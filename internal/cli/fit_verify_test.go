package cli

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/script/probe/probetest"
)

var fitSmall = []string{"fit", "--config", llamaConfig, "--seq", "128", "--effective-batch", "4", "--micro-batch", "2", "--precision", "amp-bf16", "--checkpointing", "none", "--optimizer", "adamw-fused", "--gpu", "h200", "--offload", "none", "--verify"}

// pretended is a Python that says what a card would have measured.
func pretended(t *testing.T, line string) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("a shell script stands for Python")
	}
	path := filepath.Join(t.TempDir(), "python")
	script := "#!/bin/sh\ncase \"$1\" in -c) echo '{\"torch\": \"2.11.0\", \"transformers\": \"5.17.0\", \"site\": \"/\"}';; *) echo 'PLIMSOLL " + line + "';; esac\n"
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestVerifyPrintsPredictedAgainstMeasured(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		line string
		code int
		want []string
	}{
		"holds":    {`{"card": "NVIDIA H200", "torch": "2.11.0", "allocated": 21474836480, "reserved": 1073741824, "step_ms": 100}`, 0, []string{"NVIDIA H200", "It holds", "allocated", "100 ms"}},
		"too much": {`{"card": "NVIDIA H200", "torch": "2.11.0", "allocated": 21474836480, "reserved": 107374182400, "step_ms": 100}`, 3, []string{"It does not hold: more was reserved"}},
		"died":     {`{"card": "NVIDIA H200", "torch": "2.11.0", "allocated": 1, "reserved": 1, "failed": "CUDA out of memory"}`, 3, []string{"It does not hold: CUDA out of memory"}},
		"no card":  {`{"refused": "this machine has no card that PyTorch 2.11.0 can use"}`, 1, []string{"the plan was not run", "no card"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := invoke(t, "", with(fitSmall, "--python", pretended(t, c.line))...)
			if code != c.code {
				t.Errorf("exit code %d, want %d\n%s%s", code, c.code, stdout, stderr)
			}
			for _, w := range c.want {
				if !strings.Contains(stdout+stderr, w) {
					t.Errorf("no %q in\n%s%s", w, stdout, stderr)
				}
			}
		})
	}
}

func TestVerifyRefusesWhatItCannotRun(t *testing.T) {
	t.Parallel()
	for want, more := range map[string][]string{
		"--verify runs plans written for torch, trainer, trl, fsdp2": {"--write", "axolotl"},
		"need those cards": {"--gpus", "2", "--sharding", "zero2", "--write", "trainer", "--precision", "bf16"},
	} {
		code, stdout, stderr := invoke(t, "", with(fitSmall, more...)...)
		if code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit code %d, want 2 and %q\n%s%s", more, code, want, stdout, stderr)
		}
	}
}

// Without a card the real driver says so.
func TestVerifyWithoutACardSaysSo(t *testing.T) {
	t.Parallel()
	python := probetest.Warm(t)
	code, stdout, stderr := invoke(t, "", with(fitSmall, "--python", python)...)
	if code != 1 || !strings.Contains(stderr, "no card that PyTorch") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}
