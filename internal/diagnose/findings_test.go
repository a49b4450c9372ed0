package diagnose_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/report"
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
