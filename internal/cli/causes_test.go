package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/report"
)

// truth is one line of truth.jsonl: a program, and what is wrong with it.
type truth struct {
	Program string `json:"program"`
	File    string `json:"file"`    // its recording, relative to the folder; empty: every recording whose name begins with the program's
	Finding string `json:"truth"`   // id of the finding; several, any of which is right, with "|" between; empty or "healthy": nothing is wrong
	Line    int    `json:"line"`    // 0: none can be named
	Lines   []int  `json:"lines"`   // others that are right as well
	Holder  string `json:"holder"`  // part of a holder's name that is as good as the line
	Variant string `json:"variant"` // how it was recorded; empty: what the file's name says after the program's
}

func (t *truth) healthy() bool {
	return t.Finding == "" || t.Finding == "healthy" || t.Finding == "none"
}

// answered is what explain said about one recording.
type answered struct {
	truth
	file     string
	variant  string
	first    report.Finding
	said     bool
	right    bool
	lineOK   bool
	lineNear bool
	errors   int
}

// TestCausesOfABench measures explain on recordings whose causes are known: PLIMSOLL_BENCH names a folder with truth.jsonl and the recordings
// (make bench-explain DIR=…). It prints what was right and never fails: it is a measurement.
func TestCausesOfABench(t *testing.T) {
	dir := os.Getenv("PLIMSOLL_BENCH")
	if dir == "" {
		t.Skip("PLIMSOLL_BENCH names no folder")
	}
	var all []answered
	for _, row := range truths(t, dir) {
		files := row.recordings(dir)
		if len(files) == 0 {
			t.Logf("%s: no recording", row.Program)
		}
		for _, file := range files {
			all = append(all, ask(t, row, file))
		}
	}
	for i := range all {
		t.Log(all[i].line())
	}
	summary(t, "all", all)
	byVariant := map[string][]answered{}
	for _, a := range all {
		byVariant[a.variant] = append(byVariant[a.variant], a)
	}
	if len(byVariant) > 1 {
		for v, rows := range byVariant {
			summary(t, v, rows)
		}
	}
	calibration(t, all)
}

func truths(t *testing.T, dir string) []truth {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "truth.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []truth
	for in := bufio.NewScanner(f); in.Scan(); {
		if strings.TrimSpace(in.Text()) == "" {
			continue
		}
		var row truth
		if err := json.Unmarshal(in.Bytes(), &row); err != nil {
			t.Fatalf("truth.jsonl: %v in %s", err, in.Text())
		}
		row.Program = strings.TrimSuffix(filepath.Base(row.Program), ".py")
		out = append(out, row)
	}
	return out
}

// recordings finds the files of a program: the one named, or those called like it.
func (t *truth) recordings(dir string) []string {
	if t.File != "" {
		return []string{filepath.Join(dir, t.File)}
	}
	var out []string
	for _, pattern := range []string{t.Program + ".pickle*", t.Program + ".[a-z]*.pickle*", t.Program + "-*.pickle*", filepath.Join(t.Program, "*.pickle*"), filepath.Join("*", t.Program+".pickle*")} {
		found, _ := filepath.Glob(filepath.Join(dir, pattern))
		for _, f := range found {
			if !strings.Contains(filepath.Base(f), "holders") && !slices.Contains(out, f) {
				out = append(out, f)
			}
		}
	}
	return out
}

func ask(t *testing.T, row truth, file string) answered {
	t.Helper()
	a := answered{truth: row, file: file, variant: row.Variant}
	if a.variant == "" {
		name := filepath.Base(file)
		name = name[:strings.Index(name+".pickle", ".pickle")]
		a.variant = strings.Trim(strings.TrimPrefix(name, row.Program), "-._")
	}
	var e report.Explain
	r := plimsoll(t, "", "explain", "--json", file)
	if err := json.Unmarshal([]byte(r.stdout), &e); err != nil {
		t.Logf("%s: %s", file, r.stderr)
		return a
	}
	for _, f := range e.Findings {
		if f.Severity == report.Error {
			a.errors++
		}
	}
	if len(e.Findings) > 0 {
		a.first, a.said = e.Findings[0], true
	}
	if row.healthy() {
		a.right = a.errors == 0
		return a
	}
	a.right = a.said && slices.Contains(strings.Split(row.Finding, "|"), a.first.ID)
	a.lineOK, a.lineNear = row.names(a.first, 0), row.names(a.first, 2)
	return a
}

// names tells whether a finding names the line, within some lines of it, or the holder.
func (t *truth) names(f report.Finding, within int) bool {
	if t.Line == 0 && t.Holder == "" {
		return true
	}
	for i, w := range f.Where {
		for _, l := range append([]int{t.Line}, t.Lines...) {
			if i < 3 && l > 0 && max(w.Line-l, l-w.Line) <= within {
				return true
			}
		}
	}
	for i, h := range f.Holders {
		if i < 2 && t.Holder != "" && strings.Contains(h.Name, t.Holder) {
			return true
		}
	}
	return false
}

func (a *answered) line() string {
	mark := "WRONG"
	switch {
	case a.right && (a.healthy() || a.lineOK):
		mark = "ok"
	case a.right && a.lineNear:
		mark = "near"
	case a.right:
		mark = "line?"
	}
	want := a.Finding
	if a.healthy() {
		want = "healthy"
	}
	got := "nothing"
	if a.said {
		got = fmt.Sprintf("%s (%s, %.2f)", a.first.ID, a.first.Severity, a.first.Confidence)
		for i, w := range a.first.Where {
			if i < 3 {
				got += fmt.Sprintf(" :%d", w.Line)
			}
		}
	}
	return fmt.Sprintf("%-6s %-34s %-10s want %s:%d  got %s", mark, a.Program, a.variant, want, a.Line, got)
}

func summary(t *testing.T, name string, all []answered) {
	sick, right, lines, near, healthy, falseErrors := 0, 0, 0, 0, 0, 0
	for i := range all {
		a := &all[i]
		if a.healthy() {
			healthy++
			if !a.right {
				falseErrors++
			}
			continue
		}
		sick++
		if a.right {
			right++
		}
		if a.right && a.lineOK {
			lines++
		}
		if a.right && a.lineNear {
			near++
		}
	}
	share := func(n int) float64 { return 100 * float64(n) / float64(max(1, sick)) }
	t.Logf("%-12s right first %d of %d (%.0f %%), with the line %d (%.0f %%), within two lines %d (%.0f %%); errors on %d of %d healthy ones",
		name, right, sick, share(right), lines, share(lines), near, share(near), falseErrors, healthy)
}

// calibration prints claimed against true, as docs/findings.md shows it.
func calibration(t *testing.T, all []answered) {
	bins := []struct {
		name string
		from float64
	}{{"95 % and more", 0.95}, {"85 to 94 %", 0.85}, {"70 to 84 %", 0.7}, {"50 to 69 %", 0.5}, {"below 50 %", 0}}
	t.Log("| claimed | answers | right |")
	t.Log("|---|---|---|")
	above := 2.0
	for _, b := range bins {
		n, right := 0, 0
		for i := range all {
			a := &all[i]
			if a.healthy() || !a.said || a.first.Confidence < b.from || a.first.Confidence >= above {
				continue
			}
			n++
			if a.right {
				right++
			}
		}
		above = b.from
		t.Logf("| %s | %d | %d (%.0f %%) |", b.name, n, right, 100*float64(right)/float64(max(1, n)))
	}
}
