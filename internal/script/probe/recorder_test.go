package probe_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/script/probe/probetest"
)

// python runs code with the probe's package on its path and returns what it printed.
func python(t *testing.T, args ...string) string {
	t.Helper()
	sources, err := filepath.Abs("python")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(probetest.Python(t), args...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+sources, "PYTHONDONTWRITEBYTECODE=1", "XDG_RUNTIME_DIR="+t.TempDir())
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, err.(*exec.ExitError).Stderr)
	}
	return strings.TrimSpace(string(out))
}

func TestTheRecorderTellsALifeOnAGPU(t *testing.T) {
	t.Parallel()
	got := python(t, filepath.Join("testdata", "pretended_cuda.py"), t.TempDir())
	want := `{"peak": {"allocated": 11811160064, "reserved": 11811160064, "step": 78, "phase": "forward"}, "steps": 78, "cap": 0.5, "outside": 5368709120, "card": "pretended", ` +
		`"problems": [], "oom": {"requested": 2147483648, "limit": 12884901888, "allocated": 11811160064, "step": 78, "phase": "forward"}, ` +
		`"where": "<module>", "snapshot": true, "first contexts": ["alloc", null, "alloc"], "evaluation": [null, "alloc"], "optimizer": "Adam"}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestWhereRecordingShowsTheRingIsEmptiedMadeSmallAndPhasesAreNotToldApart(t *testing.T) {
	t.Parallel()
	got := python(t, filepath.Join("testdata", "pretended_cuda.py"), t.TempDir(), "costly")
	want := `{"peak": {"allocated": 4294967296, "reserved": 4294967296, "step": 151, "phase": ""}, "calls": ["alloc", null, "off", null], "rings": [100000, 100000, null, 4096], "kept": 4096}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestStacksAreRecordedAsOftenAsTheirCostAllows(t *testing.T) {
	t.Parallel()
	// A step takes 100 ms without stacks and so many more with them; it asks for memory so many times.
	script := `
from plimsoll._budget import Budget
for extra, requests in ((0, 1000), (2, 1000), (4, 1000), (10, 1000), (35, 1000), (900, 1000000), (2, 400), (0, 10)):
    budget, now, early = Budget(), 0.0, []
    for step in range(2000):
        early += [step] if step < 128 and not budget.stacks_in(step) else []
        now += (100 + (extra if budget.stacks_in(step) else 0)) / 1000
        budget.step_done(step, now, now, step * requests)
    late = [step for step in range(1000, 2000) if budget.stacks_in(step)]
    phases = sum(budget.phases_in(step, False) for step in range(1000, 2000))
    print(extra, len(late), extra * len(late) / 1000 <= (3 if extra <= 3 else 1), len(early), len(budget.costs), budget.ring, phases == len(late), budget.phases_in(1001, True))
`
	got := python(t, "-c", script)
	want := strings.Join([]string{
		"0 1000 True 64 5 100000 True True", "2 1000 True 64 5 100000 True True", "4 32 True 64 1 12000 True True", "10 32 True 64 1 12000 True True",
		"35 14 True 64 1 12000 True True", "900 1 True 64 1 100000 True True",
		"2 77 True 64 1 4800 True True", // nothing leaves the ring while they are compared: it costs three times as much
		"0 1000 True 0 0 100000 True True",
	}, "\n")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestALowCostOfStacksIsBelievedWhenEveryComparisonFindsIt(t *testing.T) {
	t.Parallel()
	// Stacks make a step of 28 ms 6 ms longer. In some comparisons other work on the machine hides that: steps without stacks take 34 ms too. The thread's own work
	// shows 4 of the 6 ms, or nothing where the stacks are taken by another thread.
	script := `
from plimsoll._budget import Budget
def steps(extra, seen, noisy):
    budget, now, busy = Budget(), 0.0, 0.0
    for step in range(2000):
        round, stacks = step // 128, budget.stacks_in(step)
        now += 0.028 + (extra if stacks or round in noisy else 0)
        busy += 0.014 + (seen if stacks else 0)
        budget.step_done(step, now, busy, step * 1000)
    return budget.period, len(budget.costs)
print(steps(0.006, 0.004, (0, 1, 2)), steps(0.006, 0, (0,)), steps(0.006, 0, (0, 2)), steps(0.006, 0, (1,)), steps(0, 0, ()))
`
	if got, want := python(t, "-c", script), "(89, 1) (108, 2) (108, 2) (108, 1) (1, 5)"; got != want {
		t.Errorf("period and comparisons: got %s, want %s", got, want)
	}
}

func TestFailuresThatAScriptSurvivesAreCheapAndTheLastIsDescribed(t *testing.T) {
	t.Parallel()
	got := python(t, "-c", `
import subprocess, sys
done = subprocess.run([sys.executable, sys.argv[1], sys.argv[2]], capture_output=True, text=True)
print(done.stdout.split(), "CUDA out of memory" in done.stderr)
`, filepath.Join("testdata", "pretended_survivals.py"), t.TempDir())
	if want := "['1', '2'] True"; got != want {
		t.Errorf("snapshots after twelve failures, and after the end: %s, want %s", got, want)
	}
}
