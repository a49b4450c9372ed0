package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/show/screen"
	"github.com/plimsoll/plimsoll/internal/testkit/goldentest"
)

const recordings = "../../testdata/snapshots/"

func explained(t *testing.T, args ...string) report.Explain {
	t.Helper()
	r := plimsoll(t, "", append([]string{"explain", "--json"}, args...)...)
	var e report.Explain
	if err := json.Unmarshal([]byte(r.stdout), &e); err != nil {
		t.Fatalf("explain %v: %v (stderr %s)", args, err, r.stderr)
	}
	return e
}

// The recordings of sick programs, and what is wrong with each.
func TestTheCauseOfEverySickRecordingComesFirst(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, id, file string
		line           int
	}{
		{"oom-batch", "activations-dominate", "train.py", 90},
		{"oom-model-load", "model-load", "train.py", 79},
		{"leak-loss-list", "growth", "train.py", 106},
		{"leak-oom", "growth", "train.py", 106},
		{"leak-outputs-cpu-list", "growth", "train.py", 109},
		{"dataset-on-gpu", "dataset-on-gpu", "train.py", 117},
		{"exception-holds", "exception-holds-tensors", "train.py", 139},
		{"float64", "precision-too-high", "train.py", 61},
		{"cudagraph", "cuda-graph-pools", "train.py", 162},
		{"alloc-varlen-default-capped", "fragmentation", "", 0},
	} {
		e := explained(t, recordings+c.name+".pickle.gz")
		if len(e.Findings) == 0 || e.Findings[0].ID != c.id {
			t.Errorf("%s: findings %v, want %s first", c.name, findingIDs(e), c.id)
			continue
		}
		if c.file == "" {
			continue
		}
		if w := e.Findings[0].Where; len(w) == 0 || filepath.Base(w[0].File) != c.file || w[0].Line != c.line {
			t.Errorf("%s: at %v, want %s:%d", c.name, w, c.file, c.line)
		}
	}
}

// Programs run under plimsoll run on a card, each with one mistake; the sources are in internal/script/probe/testdata/gpu.
func TestTheCauseOfEverySickProgramComesFirst(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		id   string
		line int
	}{
		"leak_without_backward": {"eval-graph-kept", 28}, "float64": {"precision-too-high", 7}, "outputs_kept": {"growth", 11},
		"dataset_on_gpu": {"dataset-on-gpu", 11}, "exception_holds": {"exception-holds-tensors", 12},
	} {
		e := explained(t, "../../testdata/programs/"+name+".pickle.gz")
		if len(e.Findings) == 0 || e.Findings[0].ID != want.id {
			t.Errorf("%s: findings %v, want %s first", name, findingIDs(e), want.id)
			continue
		}
		if w := e.Findings[0].Where; len(w) == 0 || w[0].File != name+".py" || w[0].Line != want.line {
			t.Errorf("%s: at %v, want line %d", name, w, want.line)
		}
	}
}

func TestHealthyRecordingsGetNoError(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"mlp-adam", "gpt2-amp", "gpt2-accumulate", "resnet50-sgd", "late-recording", "mempool-none-frames",
		"alloc-mixed-default", "alloc-varlen-expandable-capped", "alloc-varlen-default"} {
		r := plimsoll(t, "", "explain", "--json", recordings+name+".pickle.gz")
		if r.code != exitOK {
			t.Errorf("%s: exit %d, %s", name, r.code, r.stdout)
		}
	}
}

func findingIDs(e report.Explain) []string {
	var ids []string
	for _, f := range e.Findings {
		ids = append(ids, f.ID)
	}
	return ids
}

func TestExplainScreens(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"oom-batch", "oom-model-load", "leak-oom", "dataset-on-gpu", "gpt2-amp", "late-recording", "mempool-none-frames"} {
		r := plimsoll(t, "", "explain", recordings+name+".pickle.gz")
		for line := range strings.SplitSeq(r.stdout, "\n") {
			if screen.Columns(line) > 80 {
				t.Errorf("%s: a line of %d columns: %s", name, screen.Columns(line), line)
			}
		}
		goldentest.Check(t, "testdata/explain/"+name+".txt", []byte(r.stdout))
	}
}

func TestExplainJSONIsStable(t *testing.T) {
	t.Parallel()
	r := plimsoll(t, "", "explain", "--json", recordings+"oom-model-load.pickle.gz")
	goldentest.Check(t, "testdata/explain/oom-model-load.json", []byte(r.stdout))
}

func TestSeveralRanksNameTheOutlier(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for rank, name := range map[string]string{"rank0": "gpt2-accumulate", "rank1": "gpt2-amp", "rank2": "gpt2-accumulate", "rank3": "gpt2-accumulate"} {
		b, err := os.ReadFile(recordings + name + ".pickle.gz")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, rank+".pickle.gz"), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	e := explained(t, dir)
	if filepath.Base(e.Outlier) != "rank1.pickle.gz" || len(e.Devices) != 4 {
		t.Errorf("outlier %q of %d devices", e.Outlier, len(e.Devices))
	}
}

func TestUnreadableInputExitsWithFour(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	whole, err := os.ReadFile("../../testdata/formats/protocol4.pickle")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"cut.pickle": string(whole[:1000]), "hostile.pickle": "\x80\x04cos\nsystem\n(\x8c\x02idtR.",
		"checkpoint.pt": "PK\x03\x04xxxx", "wrong.json": `{"a": 1}`, "empty": "",
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if r := plimsoll(t, "", "explain", path); r.code != exitUnreadable || !strings.Contains(r.stderr, name) {
			t.Errorf("%s: exit %d, stderr %q", name, r.code, r.stderr)
		}
	}
	if r := plimsoll(t, "", "explain", filepath.Join(dir, "missing")); r.code != exitUnreadable {
		t.Errorf("a missing file: exit %d", r.code)
	}
}

// One broken file of a folder does not stand in the way of the others: it is skipped, named, and the exit code says so.
func TestAFolderWithABrokenFileIsExplained(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good, err := os.ReadFile(recordings + "mlp-adam.pickle.gz")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"rank0.pickle.gz": good, "rank1.pickle.gz": good[:len(good)/2]} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r := plimsoll(t, "", "explain", dir)
	if r.code != exitUnreadable || !strings.Contains(r.stdout, "never ran out of memory") || !strings.Contains(r.stdout, "rank1.pickle.gz") || !strings.Contains(r.stderr, "skipped") {
		t.Errorf("exit %d, %s%s", r.code, r.stdout, r.stderr)
	}
}
