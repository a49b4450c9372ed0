package diagnose

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/plimsoll/plimsoll/internal/origin"
	"github.com/plimsoll/plimsoll/internal/recorded"
	"github.com/plimsoll/plimsoll/internal/timeline"
	"github.com/plimsoll/plimsoll/snapshot"
)

func TestShow(t *testing.T) {
	files, _ := filepath.Glob("../../testdata/snapshots/*.pickle.gz")
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		s, err := snapshot.Read(f)
		if err != nil {
			t.Fatal(err)
		}
		c := NewCase(file, timeline.New(recorded.New(s, 0), origin.NewTable(&s.Stacks)))
		t.Log("==", filepath.Base(file), c.OOM)
		for _, f := range Run(c) {
			t.Log("   ", f.ID, f.Severity, f.Confidence, f.Title, f.Where)
		}
	}
}
