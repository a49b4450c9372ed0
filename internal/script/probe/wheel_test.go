package probe_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/script/probe/probetest"
)

func TestTheWheelInstallsIntoAFreshEnvironmentAndRuns(t *testing.T) {
	t.Parallel()
	python := probetest.Python(t)
	dir := t.TempDir()
	run := func(env []string, name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Env = append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	run(nil, filepath.Join("..", "..", "..", "scripts", "release.sh"), "-dirty", "-out", dir, "-only", runtime.GOOS+"/"+runtime.GOARCH)
	wheels, _ := filepath.Glob(filepath.Join(dir, "*.whl"))
	if len(wheels) != 1 {
		t.Fatalf("wheels: %v", wheels)
	}
	fresh := filepath.Join(dir, "fresh")
	run(nil, python, "-m", "venv", fresh)
	run(nil, filepath.Join(fresh, "bin", "python"), "-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check", wheels[0])

	// PyTorch is too large to install anew: the fresh environment borrows it.
	torch := strings.TrimSpace(run(nil, python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"))
	script := "import plimsoll, torch; m = torch.nn.Linear(2, 2); o = torch.optim.SGD(m.parameters(), lr=1)\n" +
		"m(torch.ones(1, 2)).sum().backward(); o.step(); print('stepped', [*plimsoll.__all__])"
	report := filepath.Join(dir, "report")
	out := run([]string{"PYTHONPATH=" + torch}, filepath.Join(fresh, "bin", "plimsoll"), "run", "--report", report, "--",
		filepath.Join(fresh, "bin", "python"), "-c", script)
	if !strings.Contains(out, "stepped ['start', 'mark', 'stop', 'holders', 'watch_growth', 'record']") || !strings.Contains(out, "plimsoll: no GPU memory was seen in use") {
		t.Errorf("output %q", out)
	}
	if found, _ := filepath.Glob(filepath.Join(report, "rank0-*.json")); len(found) != 1 {
		t.Errorf("notes: %v", found)
	}
	for _, command := range [][]string{{filepath.Join(fresh, "bin", "plimsoll")}, {filepath.Join(fresh, "bin", "python"), "-m", "plimsoll"}} {
		if version := run(nil, command[0], append(command[1:], "version")...); !strings.Contains(version, "plimsoll 0.1.0\ncommit ") {
			t.Errorf("%v version: %q", command, version)
		}
	}
}
