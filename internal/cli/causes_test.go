package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/units"
)

// truth is one line of truth.jsonl: a program, and what is wrong with it.
type truth struct {
	Program string `json:"program"`
	Truth   list   `json:"truth"`     // ids of the finding, any of which is right; none: nothing is wrong
	AlsoOK  list   `json:"also_ok"`   // ids that are true as well, and less to the point
	Line    int    `json:"line"`      // 0: none can be named
	Lines   []int  `json:"line_also"` // others that are right as well
	Holder  string `json:"holder"`    // part of a holder's name that is as good as the line
}

// list is a JSON string or a list of them.
type list []string

// UnmarshalJSON reads either form.
func (l *list) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		if *l = nil; one != "" && one != "healthy" {
			*l = strings.Split(one, "|")
		}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(l))
}

func (t *truth) healthy() bool { return len(t.Truth) == 0 }

// answered is what explain said about one recording.
type answered struct {
	truth
	file     string
	variant  string
	first    report.Finding
	said     bool
	right    bool // one of the ids
	accepted bool // one of them or of those that are true as well
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
		for _, variant := range slices.Sorted(maps.Keys(files)) {
			all = append(all, ask(t, row, variant, files[variant]))
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

// recordings finds the files of a program by how they were recorded: VARIANT/PROGRAM/snapshot.pickle.gz, or PROGRAM[-VARIANT].pickle.gz.
func (t *truth) recordings(dir string) map[string]string {
	out := map[string]string{}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		name := filepath.Base(path)
		if err != nil || d.IsDir() || !strings.Contains(name, ".pickle") || strings.Contains(name, "holders") {
			return nil
		}
		folder := filepath.Dir(path)
		stem, _, _ := strings.Cut(name, ".pickle")
		switch rest, called := strings.CutPrefix(stem, t.Program); {
		case filepath.Base(folder) == t.Program:
			out[filepath.Base(filepath.Dir(folder))] = path
		case called && (rest == "" || strings.ContainsAny(rest[:1], "-._")):
			out[strings.Trim(rest, "-._")] = path
		}
		return nil
	})
	return out
}

// ask explains one recording, with the log beside it where PLIMSOLL_BENCH_LOGS is set.
func ask(t *testing.T, row truth, variant, file string) answered {
	t.Helper()
	a := answered{truth: row, file: file, variant: variant}
	args := []string{"explain", "--json", file}
	if variant == "run" {
		args[2] = filepath.Dir(file) // the report folder, as plimsoll run leaves it
	}
	if log := filepath.Join(filepath.Dir(file), "stderr.txt"); os.Getenv("PLIMSOLL_BENCH_LOGS") != "" {
		if info, err := os.Stat(log); err == nil && info.Size() > 0 {
			args = append(args, log)
		}
	}
	var e report.Explain
	r := plimsoll(t, "", args...)
	if err := json.Unmarshal([]byte(r.stdout), &e); err != nil {
		t.Logf("%s: %s", file, r.stderr)
		return a
	}
	for _, f := range e.Findings {
		if f.Severity == report.Error {
			a.errors++
		}
	}
	addUp(t, file, e.Devices)
	if len(e.Findings) > 0 {
		a.first, a.said = e.Findings[0], true
	}
	if row.healthy() {
		a.right = a.errors == 0
		return a
	}
	a.right = a.said && slices.Contains(row.Truth, a.first.ID)
	a.accepted = a.right || a.said && slices.Contains(row.AlsoOK, a.first.ID)
	a.lineOK, a.lineNear = row.names(a.first, 0), row.names(a.first, 2)
	return a
}

// addUp checks that the accounts of every card make up all that is allocated there, to the byte.
func addUp(t *testing.T, file string, devices []report.Device) {
	t.Helper()
	for _, d := range devices {
		var sum units.Bytes
		for _, a := range d.Accounts.List {
			if sum += a.Bytes; a.Bytes <= 0 {
				t.Errorf("%s, device %d: an account of %s: %+v", file, d.Device, a.Bytes, a)
			}
		}
		if sum != d.Accounts.Allocated {
			t.Errorf("%s, device %d: accounts make %d bytes of %d", file, d.Device, sum, d.Accounts.Allocated)
		}
		if atEnd := d.Accounts.Event == d.Events-1; d.Accounts.Failure && atEnd && d.Accounts.Exact && sum != d.End.Allocated {
			t.Errorf("%s, device %d: accounts make %d bytes, the snapshot taken at the failure has %d", file, d.Device, sum, d.End.Allocated)
		}
	}
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
	case a.right:
		mark = "line?"
	case a.accepted:
		mark = "also"
	}
	want := strings.Join(a.Truth, "|")
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
	sick, right, accepted, lines, near, healthy, falseErrors := 0, 0, 0, 0, 0, 0, 0
	for i := range all {
		a := &all[i]
		if a.healthy() {
			healthy++
			falseErrors += count(!a.right)
			continue
		}
		sick++
		right += count(a.right)
		accepted += count(a.accepted)
		lines += count(a.accepted && a.lineOK)
		near += count(a.accepted && a.lineNear)
	}
	share := func(n int) string { return fmt.Sprintf("%d (%.0f %%)", n, 100*float64(n)/float64(max(1, sick))) }
	t.Logf("%-9s of %d sick ones: the cause first %s, it or one that is true as well %s, with the line or holder %s, within two lines %s; of %d healthy ones %d got an error",
		name, sick, share(right), share(accepted), share(lines), share(near), healthy, falseErrors)
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// bin is the answers of one range of confidence.
type bin struct {
	name                     string
	from                     float64
	answers, right, accepted int
}

// binned counts answers about programs with a mistake by what they claim.
func binned(all []answered) []bin {
	bins := []bin{{name: "95 % and more", from: 0.95}, {name: "85 to 94 %", from: 0.85}, {name: "70 to 84 %", from: 0.7}, {name: "50 to 69 %", from: 0.5}, {name: "below 50 %"}}
	for i := range all {
		a := &all[i]
		if a.healthy() || !a.said {
			continue
		}
		b := &bins[slices.IndexFunc(bins, func(b bin) bool { return a.first.Confidence >= b.from })]
		b.answers++
		b.right += count(a.right)
		b.accepted += count(a.accepted)
	}
	return bins
}

// calibration prints claimed against true, as docs/findings.md shows it.
func calibration(t *testing.T, all []answered) {
	t.Log("| claimed | answers | the cause | it, or true as well |")
	t.Log("|---|---|---|---|")
	for _, b := range binned(all) {
		t.Logf("| %s | %d | %d (%.0f %%) | %d (%.0f %%) |", b.name, b.answers, b.right, 100*float64(b.right)/float64(max(1, b.answers)), b.accepted, 100*float64(b.accepted)/float64(max(1, b.answers)))
	}
}
