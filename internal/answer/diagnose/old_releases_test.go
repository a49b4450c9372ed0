package diagnose_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/explain"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/snapshot"
)

// Recordings of real programs with what older releases do not write taken away.
func recording(t *testing.T, file string, change func(*snapshot.Snapshot)) *report.Explain {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := snapshot.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	change(s)
	return explain.Build([]explain.Evidence{{Name: file, Snapshot: s}})
}

func TestRecordingsBeforeAnnotationsGetTheSameCause(t *testing.T) {
	t.Parallel()
	files, _ := filepath.Glob("../../../testdata/snapshots/*.pickle.gz")
	for _, file := range files {
		if strings.Contains(file, "alloc-") && !strings.Contains(file, "capped") {
			continue // the same program again and again
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			whole := recording(t, file, func(*snapshot.Snapshot) {})
			old := recording(t, file, func(s *snapshot.Snapshot) { s.Annotations = nil })
			if firstError(whole) != firstError(old) {
				t.Errorf("with annotations %q, without %q", firstError(whole), firstError(old))
			}
			bare := recording(t, file, func(s *snapshot.Snapshot) {
				s.Annotations = nil
				for i := range s.Traces {
					s.Traces[i].TimeUS = nil
				}
			})
			if firstError(whole) != firstError(bare) {
				t.Errorf("with times %q, without %q", firstError(whole), firstError(bare))
			}
		})
	}
}

// firstError is the first finding that is an error and its line.
func firstError(r *report.Explain) string {
	for _, f := range r.Findings {
		if f.Severity == report.Error && len(f.Where) > 0 {
			return f.ID + " " + filepath.Base(f.Where[0].File)
		}
		if f.Severity == report.Error {
			return f.ID
		}
	}
	return ""
}
