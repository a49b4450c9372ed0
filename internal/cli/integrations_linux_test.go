package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/script/probe/probetest"
)

// integration runs a script of testdata/integrations with the Python package as a wheel installs it, and this test binary as the command plimsoll.
func integration(t *testing.T, libraries, script string, environ []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	python := probetest.Warm(t)
	if libraries != "" && os.Getenv(libraries) == "" {
		t.Skipf("needs %s: make test-torch runs this test", libraries)
	}
	folder := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(folder, "bin")
	command := fmt.Sprintf("#!/bin/sh\nPLIMSOLL_AS_COMMAND=yes exec %s \"$@\"\n", self)
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "plimsoll"), []byte(command), 0o700); err != nil {
		t.Fatal(err)
	}
	source, err := filepath.Abs("../script/probe/python/plimsoll")
	if err != nil {
		t.Fatal(err)
	}
	packages := filepath.Join(folder, "packages")
	if err := os.Mkdir(packages, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(source, filepath.Join(packages, "plimsoll")); err != nil {
		t.Fatal(err)
	}
	path, err := filepath.Abs(filepath.Join("testdata", "integrations", script))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, append([]string{path, folder}, args...)...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "PYTHONPATH="+packages+":"+os.Getenv(libraries), "PYTHONDONTWRITEBYTECODE=1",
		"IPYTHONDIR="+folder, "HOME="+folder, "CUDA_VISIBLE_DEVICES=")
	cmd.Env = append(cmd.Env, environ...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run()
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// anExplanation is what the explanation of kit.WORDS says and the error itself does not.
const anExplanation = "What to do"

func wants(t *testing.T, stdout, stderr string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(stdout, line) {
			t.Errorf("stdout lacks %q:\n%s\nstderr:\n%s", line, stdout, stderr)
		}
	}
}

// explains runs a script whose training runs out of memory: it ends with a code, prints some lines, and the error is explained once.
func explains(t *testing.T, folder, script string, ends int, lines ...string) {
	t.Helper()
	stdout, stderr, code := integration(t, folder, script, nil)
	wants(t, stdout, stderr, lines...)
	if code != ends || strings.Count(stderr, anExplanation) != 1 {
		t.Errorf("code %d, stderr %s", code, stderr)
	}
}

const figures = "logged ['memory_growth_gib', 'memory_peak_gib', 'memory_reserved_gib']"

func TestTheTrainersCallbackLogsAndExplains(t *testing.T) {
	t.Parallel()
	explains(t, "", "trainer.py", 1, figures)
}

func TestLightningsCallbackLogsAndExplains(t *testing.T) {
	t.Parallel()
	explains(t, "PLIMSOLL_HANDOVER", "lit.py", 0, figures, "the error went on")
}

func TestARecordedBlockExplainsAndLetsTheErrorGoOn(t *testing.T) {
	t.Parallel()
	explains(t, "", "block.py", 0, "the error went on", "and others too")
}

func TestNotebooksExplainACellInPlace(t *testing.T) {
	t.Parallel()
	snapshot, err := filepath.Abs("../../testdata/snapshots/oom-batch.pickle.gz")
	if err != nil {
		t.Fatal(err)
	}
	stdout, stderr, code := integration(t, "PLIMSOLL_INTEGRATIONS", "notebook.py", nil, snapshot)
	wants(t, stdout, stderr, "a cell that lives: fine", "a cell that dies: True True 0", "with a recording: True True", "a cell that leaks: True True", "who holds it: True", "a wrong option: True")
	if code != 0 {
		t.Errorf("code %d, stderr %s", code, stderr)
	}
}

func TestTrackersGetMemoryWhenAskedAndNothingOtherwise(t *testing.T) {
	t.Parallel()
	stdout, stderr, _ := integration(t, "PLIMSOLL_INTEGRATIONS", "trackers.py", nil)
	wants(t, stdout, stderr, "off\n")
	stdout, stderr, _ = integration(t, "PLIMSOLL_INTEGRATIONS", "trackers.py", []string{"PLIMSOLL_LOG=1"})
	names := "['plimsoll/growth_gib', 'plimsoll/peak_allocated_gib', 'plimsoll/reserved_gib']"
	wants(t, stdout, stderr, "mlflow "+names, "wandb "+names+" 3", "tensorboard "+names, "problems []")
}
