package observe

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/internal/live/watch"
	"github.com/plimsoll/plimsoll/internal/script/probe"
	"github.com/plimsoll/plimsoll/internal/script/verdict"
	"github.com/plimsoll/plimsoll/internal/units"
)

// observed runs a command and gives what there is to say about it, with what it wrote.
func observed(t *testing.T, q Request) (res Result, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	q.Stdout, q.Stderr, q.Record = &out, &errs, probe.Auto
	q.Say = func(line string) { t.Log("said: " + line) }
	if q.Env == nil {
		q.Env = os.Environ()
	}
	r, err := Open(q)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	outcome, err := r.Attempt(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r.Conclude(outcome), out.String(), errs.String()
}

func (r Result) text() string { return strings.Join(r.Lines, "\n") }

func sh(script string) []string { return []string{"sh", "-c", script} }

func TestAMemoryErrorOfAnyProgramIsExplained(t *testing.T) {
	t.Parallel()
	message := "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.69 GiB of which 1.02 GiB is free."
	res, _, stderr := observed(t, Request{Args: sh("echo 'RuntimeError: " + message + "' >&2; exit 1")})
	if res.Kind != verdict.OutOfMemory || !res.Record.OutOfMem || res.Record.Verdict != "out-of-memory" || res.text() != "sh ended with code 1 after it printed a memory error." {
		t.Errorf("%+v", res)
	}
	if len(res.Texts) != 1 || res.KeptIn == "" {
		t.Fatalf("no evidence: %+v", res)
	}
	if text, err := os.ReadFile(res.Texts[0]); err != nil || string(text) != stderr {
		t.Errorf("kept %q, printed %q, %v", text, stderr, err)
	}
}

func TestAFailureIsNotSaidToHaveNothingToDoWithMemory(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"exit 7":     "sh ended with code 7; no memory error was seen.",
		"kill -9 $$": "the command or one of its processes was killed (SIGKILL); by whom is not known. No memory error was seen.",
		"exit 0":     "no GPU memory was seen in use.",
	} {
		if res, _, _ := observed(t, Request{Args: sh(script)}); res.text() != want {
			t.Errorf("%s: %q, want %q", script, res.text(), want)
		}
	}
}

// beside is a driver that sees one process, whose number it reads from a file, hold so much.
type beside struct {
	file  string
	bytes units.Bytes
}

func (b beside) Read(context.Context, time.Time) (watch.Reading, error) {
	r := watch.Reading{Cards: []watch.Card{{ID: "GPU-0", Name: "NVIDIA H200", Total: 140 * units.GiB}}}
	data, _ := os.ReadFile(b.file)
	if pid, err := strconv.Atoi(strings.TrimSpace(string(data))); err == nil {
		r.Uses = []watch.Use{{CardID: "GPU-0", PID: pid, Bytes: b.bytes, Known: true, Who: watch.Identity{Command: "python train.py"}}}
		_ = os.WriteFile(b.file+".seen", nil, 0o600)
	}
	return r, nil
}

func TestAProcessThatIgnoresTheProbeIsNamedWithWhatTheDriverSaw(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3")
	}
	for name, c := range map[string]struct {
		args func(python, code string) []string
		why  verdict.Blindness
	}{
		"isolated": {func(p, code string) []string { return []string{p, "-I", "-c", code} }, verdict.Isolated},
		"replaced": {func(p, code string) []string {
			return sh("type sh >/dev/null; PYTHONPATH=/x exec " + p + " -c '" + code + "'")
		}, verdict.Replaced},
		"cleared":    {func(p, code string) []string { return []string{"env", "-i", p, "-c", code} }, verdict.Cleared},
		"no PyTorch": {func(p, code string) []string { return []string{p, "-c", code} }, verdict.NeverLoaded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "pid")
			code := `import os, time
open("` + file + `.part", "w").write(str(os.getpid())); os.rename("` + file + `.part", "` + file + `")
while not os.path.exists("` + file + `.seen"): time.sleep(0.01)`
			res, _, _ := observed(t, Request{Args: c.args(python, code), Driver: beside{file, 6963 * units.MiB}})
			if res.Kind != verdict.Finished || len(res.Unobserved) != 1 || res.Unobserved[0].Why != c.why {
				t.Fatalf("%+v", res)
			}
			want := "not observed: python train.py (process " + strconv.Itoa(res.Unobserved[0].PID) + "): the driver saw 6.8 GiB on GPU 0; " + string(c.why) + "."
			if res.text() != want {
				t.Errorf("%q, want %q", res.text(), want)
			}
			if n := len(res.Record.Unseen); n != 1 || *res.Record.Unseen[0].Bytes != int64(6963*units.MiB) {
				t.Errorf("%+v", res.Record)
			}
		})
	}
}

func TestOtherPeoplesProcessesAreNotTakenForTheCommands(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pid")
	if err := os.WriteFile(file, []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		t.Fatal(err)
	}
	res, _, _ := observed(t, Request{Args: sh("while [ ! -e " + file + ".seen ]; do sleep 0.02; done; sleep 0.3"), Driver: beside{file, units.GiB}})
	if len(res.Unobserved) != 0 || res.text() != "no GPU memory was seen in use, neither by the probe nor by the driver." {
		t.Errorf("%+v", res)
	}
}

const died = `{"schema":"plimsoll.notes/1","run":"RUN","pid":PID,"rank":0,"error":{"type":"OutOfMemoryError","message":"CUDA out of memory.","out_of_memory":true,"traceback":"x"}}`

func TestTheFailureOfAnEarlierRunIsNotToldAgain(t *testing.T) {
	t.Parallel()
	report := t.TempDir()
	old := filepath.Join(report, "rank0-1.json")
	if err := os.WriteFile(old, []byte(strings.NewReplacer("RUN", "plimsoll-1.1", "PID", "1").Replace(died)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"growth", "peak"} {
		if err := os.WriteFile(filepath.Join(report, "rank0-1."+when+".pickle"), []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	res, _, _ := observed(t, Request{Args: sh("exit 3"), Report: report})
	if res.Grown != "" || res.Peak != "" {
		t.Errorf("an earlier recording is taken for this run's: %q %q", res.Grown, res.Peak)
	}
	if res.Kind != verdict.Failed || res.Record.OutOfMem || res.Record.Processes != 0 {
		t.Errorf("%+v", res)
	}
	if _, err := os.Stat(old); err != nil {
		t.Errorf("the earlier record is gone: %v", err)
	}
	mine := strings.NewReplacer("RUN", "'$PLIMSOLL_RUN'", "PID", "'$$'").Replace(died)
	if res, _, _ := observed(t, Request{Args: sh("echo '" + mine + "' > $PLIMSOLL_REPORT/rank0-$$.json; exit 1"), Report: report}); res.Kind != verdict.OutOfMemory || len(res.Dead) != 1 {
		t.Errorf("%+v", res)
	}
}

// probed is a program that tells whether Python loaded the probe.
const probed = `import sys; print("plimsoll._start" in sys.modules)`

func TestTheProbeIsFoundWhereAWrapperSetsPYTHONPATH(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3")
	}
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	code := file("probed.py", probed)
	for name, args := range map[string][]string{
		"plain":                  {python, code},
		"env":                    {"env", "PYTHONPATH=/x", "A=b", python, code},
		"sh -c":                  sh("PYTHONPATH=/x python3 " + code),
		"a script":               {"sh", file("train.sh", "export PYTHONPATH=/x\npython3 "+code+"\n")},
		"an executable script":   {file("train", "#!/usr/bin/env bash\nexport PYTHONPATH=/x\nexec python3 "+code+"\n")},
		"a launcher in Python":   {python, file("launch.py", "import subprocess, sys\nsys.exit(subprocess.call([sys.executable, '"+code+"'], env={'PYTHONPATH': '/x'}))\n")},
		"a changed os.environ":   {python, file("change.py", "import os, subprocess, sys\nos.environ['PYTHONPATH'] = '/x'\nsys.exit(subprocess.call([sys.executable, '"+code+"']))\n")},
		"its own path is kept":   {"env", "PYTHONPATH=" + dir, python, "-c", "import probed"},
		"an environment without": {python, file("bare.py", "import subprocess, sys\nsys.exit(subprocess.call([sys.executable, '"+code+"'], env={}))\n")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if res, stdout, stderr := observed(t, Request{Args: args}); stdout != "True\n" {
				t.Errorf("%+v: %q, stderr %q", res, stdout, stderr)
			}
		})
	}
}

func TestAScriptThatAsksWherePythonIsIsToldTheTruth(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3")
	}
	res, stdout, _ := observed(t, Request{Args: sh("export PYTHONPATH=/x; command -v python3")})
	if strings.TrimSpace(stdout) != python {
		t.Errorf("%+v: %q, want %q", res, stdout, python)
	}
}

func TestWhoeverShimsRunIsTheSamePython(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("needs python3")
	}
	ask := `python3 -c 'import sys; print(sys.executable, sys.prefix, sys.argv)' "a b"`
	bare, err := exec.Command("sh", "-c", ask).Output()
	if err != nil {
		t.Fatal(err)
	}
	if _, stdout, _ := observed(t, Request{Args: sh("export PYTHONPATH=/x; " + ask)}); stdout != string(bare) {
		t.Errorf("%q, want %q", stdout, bare)
	}
}
