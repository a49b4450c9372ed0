package probe_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/evidence/holders"
)

// looked is what a program of testdata/holders says about itself, and what the walk said about it.
type looked struct {
	Program string `json:"program"`
	Truth   string `json:"truth"`
	Want    string `json:"want"` // role and name
	Right   bool   `json:"right"`
	Skipped string `json:"skipped"`
	Error   string `json:"error"`
	Problem string `json:"problem"`
	Walk    struct {
		Complete bool `json:"complete"`
	} `json:"walk"`
	Top json.RawMessage `json:"top"`
}

func TestEveryProgramsHolderIsNamed(t *testing.T) {
	t.Parallel()
	told := 0
	for line := range strings.Lines(python(t, filepath.Join("testdata", "holders_on_cpu.py"))) {
		var l looked
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		switch {
		case l.Skipped != "":
			t.Logf("%s: %s", l.Program, l.Skipped)
		case l.Error != "" || l.Problem != "" || !l.Walk.Complete:
			t.Errorf("%s: %s%s", l.Program, l.Error, l.Problem)
		case !l.Right:
			t.Errorf("%s: %s: want %q among the largest, got %s", l.Program, l.Truth, l.Want, l.Top)
		default:
			told++
		}
	}
	if told < 50 {
		t.Errorf("%d programs were looked into, want at least 50", told)
	}
}

func TestParametersGradientsAndStateAreWhatPyTorchSays(t *testing.T) {
	t.Parallel()
	lines := strings.Split(python(t, filepath.Join("testdata", "holders_exact.py")), "\n")
	if len(lines) != 10 {
		t.Errorf("%d models, want 10", len(lines))
	}
	for _, line := range lines {
		if !strings.HasSuffix(line, " equal") {
			t.Error(line)
		}
	}
}

func TestAWalkTouchesNothingAndLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	got := python(t, filepath.Join("testdata", "holders_hostile.py"))
	want := `{"touched": [], "collected": [], "problem": null, "complete": true, "died": true, "locals kept": true, "gc": true, "grad": true, "interval": true, ` +
		`"named": ["hostile.data", "lazy[\"inside\"]", "own", "sparse"], "packed": ["AccumulateGrad", "ExpBackward0", "MulBackward0"], "objects": 6, ` +
		`"bounds": {"objects": "objects", "time": "time", "full": [true, 50, true], "kept": 50}}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestARunThatLivesIsLookedIntoNearItsPeakWhenItGrowsAndWhenAsked(t *testing.T) {
	t.Parallel()
	report := t.TempDir()
	got := python(t, filepath.Join("testdata", "pretended_growth.py"), report)
	peak := `"peak.holders.json.zlib", "peak.pickle"`
	asked := `"demand.holders.json.zlib", "demand.pickle", `
	want := `{"steady": [` + peak + `], "asked": [` + asked + peak + `], "status": [true, "optimizer state of model in pretended_growth.py:65"], ` +
		`"grown": [` + asked + `"growth.holders.json.zlib", "growth.pickle", ` + peak + `], "failed": ["holders.json.zlib", "pickle"], "problems": []}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	written, err := filepath.Glob(filepath.Join(report, "*.holders.json.zlib"))
	if err != nil || len(written) != 1 {
		t.Fatalf("holders files %v: %v", written, err)
	}
	f, err := os.Open(written[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	read, err := holders.Read(f)
	if err != nil || read.When != holders.AtOOM || len(read.Running) == 0 {
		t.Errorf("read %+v: %v", read, err)
	}
	if got := python(t, "-c", "import plimsoll, sys; print(plimsoll.holders(file=sys.argv[1]).found['when'])", written[0]); got != "oom" {
		t.Errorf("read in Python: %s", got)
	}
}
