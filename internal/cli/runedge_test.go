package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/script/probe/probetest"
)

const fewSteps = `
import torch
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.Adam(model.parameters())
def step():
    optimizer.zero_grad()
    model(torch.ones(3, 4)).mean().backward()
    optimizer.step()
for _ in range(3):
    step()
`

func TestTheCommandsOwnOutputAndCodePassThrough(t *testing.T) {
	t.Parallel()
	got := runs(t, nil, "run", "--", "sh", "-c", "printf 'out\\n'; printf 'err\\n' >&2; exit 7")
	got.wants(t, 7, "err\n", "plimsoll: sh ended with code 7; no memory error was seen.\n")
	if got.stdout != "out\n" {
		t.Errorf("stdout %q", got.stdout)
	}
	if n := strings.Count(got.stderr, "plimsoll:"); n != 1 {
		t.Errorf("%d lines of plimsoll's, want one:\n%s", n, got.stderr)
	}
}

func TestACommandWithoutDashesIsToldOfThem(t *testing.T) {
	t.Parallel()
	runs(t, nil, "run", "python", "-c", "pass").wants(t, exitUsage, "flags of the command you run go after --: plimsoll run -- python train.py")
	runs(t, nil, "run", "--reprot", "x", "--", "true").wants(t, exitUsage, "did you mean --report?")
}

func TestAMissingCommandIsSaidAsAShellWould(t *testing.T) {
	t.Parallel()
	got := runs(t, nil, "run", "--", "no-such-command-here")
	got.wants(t, 127, "no-such-command-here")
}

func TestAnErrorOfTheScriptPrintsAsWithoutTheProbe(t *testing.T) {
	t.Parallel()
	python := probetest.Warm(t)
	script := fewSteps + "loss = model(torch.ones(3, 4)).mean()\nloss.backward()\nloss.backward()\n"
	path := filepath.Join(t.TempDir(), "train.py")
	if err := os.WriteFile(path, []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	got := runs(t, nil, "run", "--", python, path)
	got.wants(t, 1, "RuntimeError: Trying to backward through the graph a second time", "ended with code 1: RuntimeError, not a memory error")
	if strings.Contains(got.stderr, "_frames.py") || strings.Contains(got.stderr, "plimsoll-") {
		t.Errorf("the probe shows in the traceback:\n%s", got.stderr)
	}
}

func TestWithoutTorchNothingIsObservedAndNothingChanges(t *testing.T) {
	t.Parallel()
	python := probetest.Python(t)
	got := runs(t, nil, "run", "--", python, "-c", "import sys; sys.modules['torch'] = None\ntry:\n import torch\nexcept ImportError: print('no torch')")
	got.wants(t, 0, "no GPU memory was seen in use")
	if got.stdout != "no torch\n" {
		t.Errorf("stdout %q", got.stdout)
	}
}

func TestAMissingTorchFailsAsWithoutTheTool(t *testing.T) {
	t.Parallel()
	python := probetest.Python(t)
	script := "import sys; sys.path = [p for p in sys.path if 'site-packages' not in p]\nimport torch\n"
	bare, err := exec.Command(python, "-c", script).CombinedOutput()
	if err == nil {
		t.Fatal("torch is there")
	}
	for _, flags := range [][]string{{"run"}, {"run", "--fit"}} {
		got := runs(t, nil, append(flags, "--", python, "-c", script)...)
		got.wants(t, 1, string(bare), "ended with code 1; no memory error was seen")
		if n := strings.Count(got.stderr, "plimsoll:"); n != 1 {
			t.Errorf("%v: %d lines of plimsoll's, want one:\n%s", flags, n, got.stderr)
		}
	}
}

func TestADiskThatIsFullDoesNotKeepAScriptFromRunningUntouched(t *testing.T) {
	t.Parallel()
	python := probetest.Warm(t)
	source, err := os.ReadFile(filepath.Join("testdata", "fit", "batchnorm.py"))
	if err != nil {
		t.Fatal(err)
	}
	full := strings.Replace(string(source), "for x, y in", "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\nfor x, y in", 1)
	got := runs(t, nil, "run", "--fit", "--split", "4", "--", python, "-c", full)
	got.wants(t, 0, "cannot write", "cannot be made", "starting again unchanged")
	if got.numbers(t) == nil {
		t.Error("it did not train")
	}
}

func TestAFolderThatCannotBeWrittenLeavesTheRunUnobserved(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	got := runs(t, nil, "run", "--report", filepath.Join(file, "report"), "--", "sh", "-c", "echo ran; exit 5")
	got.wants(t, 5, "the command runs unobserved")
	if got.stdout != "ran\n" {
		t.Errorf("stdout %q", got.stdout)
	}
}

func TestAFullDiskCostsOneLine(t *testing.T) {
	t.Parallel()
	python := probetest.Warm(t)
	// A file size limit of zero makes every write fail, as a full disk does.
	full := "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\nfor _ in range(3):"
	got := runs(t, nil, "run", "--", python, "-c", strings.Replace(fewSteps, "for _ in range(3):", full, 1)+"print('trained')")
	got.wants(t, 0, "the script continues, but its record is incomplete")
	if got.stdout != "trained\n" || strings.Count(got.stderr, "cannot write") != 1 {
		t.Errorf("stdout %q stderr %q", got.stdout, got.stderr)
	}
}

func TestAClockThatJumpsBackDoesNotSilenceTheNotes(t *testing.T) {
	t.Parallel()
	python := probetest.Warm(t)
	report := t.TempDir()
	jump := "step()\nimport time, os, glob, json, plimsoll._recorder as r\nr.NOTES_EVERY = 0\nreal = time.time\ntime.time = lambda: real() - 3600\nstep()\n" +
		"print(json.load(open(glob.glob(os.environ['PLIMSOLL_REPORT'] + '/rank0-*.json')[0]))['step'])\n"
	got := runs(t, nil, "run", "--report", report, "--", python, "-c", strings.Replace(fewSteps, "for _ in range(3):\n    step()\n", jump, 1))
	got.wants(t, 0)
	if got.stdout != "2\n" {
		t.Errorf("the notes are of step %q", got.stdout)
	}
}

func TestTheProbeRunsTheSitecustomizeItStandsBefore(t *testing.T) {
	t.Parallel()
	python := probetest.Python(t)
	own := t.TempDir()
	if err := os.WriteFile(filepath.Join(own, "sitecustomize.py"), []byte("print('mine first')\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	got := runs(t, []string{"PYTHONPATH=" + own}, "run", "--", python, "-c", "import sitecustomize; print(sitecustomize.__file__)")
	got.wants(t, 0)
	if want := "mine first\n" + filepath.Join(own, "sitecustomize.py") + "\n"; got.stdout != want {
		t.Errorf("stdout %q, want %q", got.stdout, want)
	}
}

func TestARunTellsItsStatusWhileItRuns(t *testing.T) {
	t.Parallel()
	python := probetest.Warm(t)
	read := "\nimport json, os\np = f\"{os.environ['XDG_RUNTIME_DIR']}/plimsoll-{os.getuid()}/run-{os.getpid()}.json\"\ns = json.load(open(p))\n" +
		"print(s['schema'], s['pid'] == os.getpid(), s['rank'], s['step'], s['phase'], s['allocated'], s['peak_allocated'], s['device'])\n"
	folder := t.TempDir()
	got := runs(t, []string{"XDG_RUNTIME_DIR=" + folder}, "run", "--", python, "-c", fewSteps+read)
	got.wants(t, 0)
	if want := "plimsoll.status/1 True 0 1 forward 0 0 cpu\n"; got.stdout != want {
		t.Errorf("status %q, want %q", got.stdout, want)
	}
	if left, _ := filepath.Glob(filepath.Join(folder, "*", "run-*")); len(left) > 0 {
		t.Errorf("status files are left behind: %v", left)
	}
}

func TestThreeCallsRecordFromWithinAScript(t *testing.T) {
	t.Parallel()
	python := probetest.Python(t)
	probe, err := filepath.Abs(filepath.Join("..", "script", "probe", "python"))
	if err != nil {
		t.Fatal(err)
	}
	report := filepath.Join(t.TempDir(), "report")
	script := "import sys; sys.path.insert(0, '" + probe + "'); sys.dont_write_bytecode = True\nimport plimsoll\nplimsoll.start('" + report + "')\n" + fewSteps +
		"plimsoll.mark('done')\nnotes = plimsoll.stop()\nprint(notes['step'], notes['marks'][-1][1])\n"
	got := runs(t, nil, "run", "--record", "off", "--", python, "-E", "-c", script)
	got.wants(t, 0)
	if got.stdout != "3 done\n" {
		t.Errorf("stdout %q", got.stdout)
	}
	if found, _ := filepath.Glob(filepath.Join(report, "rank0-*.json")); len(found) != 1 {
		t.Errorf("notes: %v", found)
	}
}
