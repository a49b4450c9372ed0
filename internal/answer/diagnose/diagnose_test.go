package diagnose

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/evidence/recording"
	"github.com/plimsoll/plimsoll/internal/memory/timeline"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

func open(t *testing.T, name string) *Case {
	t.Helper()
	f, err := os.Open(filepath.Join("../../../testdata/snapshots", name+".pickle.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := snapshot.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return NewCase(name, timeline.New(recording.New(s, 0), callsite.NewTable(&s.Stacks)))
}

func TestEveryFindingSaysWhatItRestsOnAndWhatWouldRefuteIt(t *testing.T) {
	t.Parallel()
	files, _ := filepath.Glob("../../../testdata/snapshots/*.pickle.gz")
	for _, file := range files {
		name := filepath.Base(file)
		for _, f := range Run(open(t, name[:len(name)-len(".pickle.gz")])) {
			if f.Title == "" || len(f.Evidence) == 0 || f.Refuted == "" || f.Confidence <= 0 || f.Confidence >= 1 {
				t.Errorf("%s: %s lacks a title, evidence, refutation or confidence: %+v", name, f.ID, f)
			}
			for _, r := range f.Remedies {
				if r.Action == "" || r.CheckedBy == "" || r.Saves < 0 {
					t.Errorf("%s: %s has a remedy %+v", name, f.ID, r)
				}
			}
		}
	}
}

func TestTheLimitOfACappedRunIsBracketed(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]units.Bytes{
		"oom-batch": 16 * units.GiB, "oom-model-load": 8 * units.GiB, "leak-oom": 4 * units.GiB,
		"exception-holds": 6 * units.GiB, "alloc-varlen-default-capped": 10 * units.GiB,
	} {
		l := open(t, name).OOM.Limit
		if l.Bytes != want || l.Low > want || l.High < want {
			t.Errorf("%s: limit %s between %s and %s, it was %s", name, l.Bytes, l.Low, l.High, want)
		}
	}
}

func TestAdviceThatCannotHelpIsNotGiven(t *testing.T) {
	t.Parallel()
	for _, f := range Run(open(t, "oom-model-load")) {
		for _, r := range f.Remedies {
			for _, word := range []string{"micro-batch", "checkpointing", "expandable"} {
				if strings.Contains(r.Action, word) {
					t.Errorf("a model that does not load is told %q", r.Action)
				}
			}
		}
	}
	if found := Run(open(t, "oom-batch")); slices.ContainsFunc(found, func(f report.Finding) bool { return f.ID == "fragmentation" }) {
		t.Error("a full card is called fragmented")
	}
}
