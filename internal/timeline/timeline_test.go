package timeline

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/origin"
	"github.com/plimsoll/plimsoll/internal/recorded"
	"github.com/plimsoll/plimsoll/internal/tape"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

func open(t testing.TB, name string) *Timeline {
	t.Helper()
	f, err := os.Open(filepath.Join("../../testdata/snapshots", name+".pickle.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := snapshot.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return New(recorded.New(s, 0), origin.NewTable(&s.Stacks))
}

// counters are PyTorch's own, written beside each recording.
func counters(t testing.TB, name string) map[string]int64 {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../../testdata/snapshots", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct{ Stats map[string]int64 }
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Stats
}

func names(t testing.TB) []string {
	t.Helper()
	files, _ := filepath.Glob("../../testdata/snapshots/*.pickle.gz")
	if len(files) == 0 {
		t.Fatal("no recordings in testdata")
	}
	var out []string
	for _, f := range files {
		out = append(out, strings.TrimSuffix(filepath.Base(f), ".pickle.gz"))
	}
	return out
}

func TestPeaksEqualPyTorchsCountersToTheByte(t *testing.T) {
	t.Parallel()
	for _, name := range names(t) {
		tl, stats := open(t, name), counters(t, name)
		if !tl.Complete {
			t.Logf("%s: history incomplete (%d alive before it)", name, len(tl.Tape.Initial))
			continue
		}
		if got, want := int64(tl.Peak.Requested), stats["requested_bytes.all.peak"]; got != want {
			t.Errorf("%s: peak requested %d, PyTorch counted %d", name, got, want)
		}
		if got, want := int64(tl.Peak.Reserved), stats["reserved_bytes.all.peak"]; got != want {
			t.Errorf("%s: peak reserved %d, PyTorch counted %d", name, got, want)
		}
		if tl.Contradictions != 0 {
			t.Errorf("%s: %d events contradict the history", name, tl.Contradictions)
		}
	}
}

func TestShow(t *testing.T) {
	for _, name := range names(t) {
		tl := open(t, name)
		by := tl.ByCategory(tl.Peak.Event)
		line := name + ": "
		for c := range tape.Categories {
			if by[c] > 0 {
				line += tape.Category(c).String() + " " + units.Bytes(by[c]).Short() + ", "
			}
		}
		t.Log(line, len(tl.Steps), tl.StepsFrom)
		for i, g := range tl.Growing(3) {
			if i < 4 {
				f, _ := tl.Origins.UserFrame(g.Stack)
				t.Log("     grow", origin.Describe(f), g.Category, g.Steps, g.Span, g.Bytes, g.PerStep)
			}
		}
	}
}
