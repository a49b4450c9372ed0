package diagnose_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/show/screen"
	"github.com/plimsoll/plimsoll/internal/show/textout"
)

func TestTheCauseOfEverySickProgramComesFirst(t *testing.T) {
	t.Parallel()
	for _, s := range sicknesses() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			p := s.run()
			show(t, s.id+"-"+s.name, p)
			r := p.explain(t)
			if len(r.Findings) == 0 || r.Findings[0].ID != s.id {
				t.Fatalf("%s, want %s first", ids(r), s.id)
			}
			f := r.Findings[0]
			if f.Bytes < s.low || f.Bytes > s.high {
				t.Errorf("%s of %s, want between %s and %s", f.ID, f.Bytes, s.low, s.high)
			}
			if s.file != "" && (len(f.Where) == 0 || !strings.HasSuffix(f.Where[0].File, s.file) || s.line > 0 && f.Where[0].Line != s.line) {
				t.Errorf("%s at %v, want %s:%d", f.ID, f.Where, s.file, s.line)
			}
		})
	}
}

// Whatever is wrong, the answer fits a terminal, holds together and does not repeat itself.
func TestEveryAnswerCanBeReadAtTwoInTheMorning(t *testing.T) {
	t.Parallel()
	for _, s := range sicknesses() {
		r := s.run().explain(t)
		var out strings.Builder
		textout.Explain(screen.New(&out, screen.Style{}), r)
		for line := range strings.SplitSeq(out.String(), "\n") {
			if screen.Columns(line) > 80 {
				t.Errorf("%s: a line of %d columns: %s", s.name, screen.Columns(line), line)
			}
		}
		for _, f := range r.Findings {
			if f.Title == "" || len(f.Evidence) == 0 || f.Refuted == "" || len(f.Remedies) == 0 || f.Confidence <= 0 || f.Confidence >= 1 {
				t.Errorf("%s: %s lacks a title, evidence, refutation, remedy or confidence: %+v", s.name, f.ID, f)
			}
			for i, w := range f.Where {
				if w.File == "" || w.Line == 0 || slices.Contains(f.Where[:i], w) {
					t.Errorf("%s: %s names %v", s.name, f.ID, f.Where)
				}
			}
			for _, m := range f.Remedies {
				if m.Saves < 0 || m.Saves > max(r.Devices[0].Peak.Requested, f.Bytes) || m.Saves == 0 && m.CheckedBy == report.ByArithmetic {
					t.Errorf("%s: %s has the remedy %+v", s.name, f.ID, m)
				}
			}
		}
	}
}

// show writes a program's snapshot where PLIMSOLL_PROGRAMS names a folder, to look at its screen.
func show(t *testing.T, name string, p *program) {
	dir := os.Getenv("PLIMSOLL_PROGRAMS")
	if dir == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(dir, strings.ReplaceAll(name, " ", "-")+".json"), p.file(t), 0o644); err != nil {
		t.Fatal(err)
	}
}

func ids(r *report.Explain) string {
	var all []string
	for _, f := range r.Findings {
		all = append(all, f.ID+"("+f.Severity+")")
	}
	return strings.Join(all, " ")
}
