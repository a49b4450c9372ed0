package workspace_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/code/workspace"
)

// bug is one known bug of a public repository: the file, a text that stands on its line, and the rules that may name it.
type bug struct {
	ID, Kind, Repository, Commit, Path, Needle string
	Rules                                      []string
}

// Scores lint on bugs that people fixed in public repositories. Neither the list nor the code is ours to keep: `make lint-cases`
// names the list in PLIMSOLL_LINT_CASES and a folder of checkouts, one for each repository and commit, in PLIMSOLL_LINT_CHECKOUTS.
func TestPublicBugsAreFound(t *testing.T) {
	list, checkouts := os.Getenv("PLIMSOLL_LINT_CASES"), os.Getenv("PLIMSOLL_LINT_CHECKOUTS")
	if list == "" || checkouts == "" {
		t.Skip("needs the list and the checkouts: make lint-cases")
	}
	found, total, missing := 0, 0, 0
	for _, b := range readBugs(t, list) {
		root, err := filepath.EvalSymlinks(filepath.Join(checkouts, b.ID))
		if err != nil {
			missing++
			continue
		}
		if _, err := os.Stat(filepath.Join(root, b.Path)); err != nil {
			missing++
			continue
		}
		total++
		at := hits(t, root, b)
		verdict := "MISSED"
		if len(at) > 0 {
			found++
			verdict = "found "
		}
		fmt.Printf("%s  %-4s %-60.60s %s\n", verdict, b.ID, b.Kind, strings.Join(at, "; "))
	}
	fmt.Printf("%d of %d found; %d could not be read\n", found, total, missing)
}

func readBugs(t *testing.T, list string) []bug {
	t.Helper()
	f, err := os.Open(list)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var bugs []bug
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var b bug
		if err := json.Unmarshal(lines.Bytes(), &b); err != nil {
			t.Fatal(err)
		}
		bugs = append(bugs, b)
	}
	return bugs
}

// hits lists the findings of an expected rule on a line with the needle.
func hits(t *testing.T, root string, b bug) []string {
	t.Helper()
	var s workspace.Settings
	files, err := s.Files([]string{root})
	if err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(root, b.Path)
	files = append(files, target)
	results, err := workspace.New(s).Check(context.Background(), files, 2)
	if err != nil {
		t.Fatal(err)
	}
	last := results[len(results)-1]
	lines := strings.Split(string(last.Source), "\n")
	var at []string
	for _, f := range last.Findings {
		expected := false
		for _, rule := range b.Rules {
			expected = expected || rule == f.Rule
		}
		if expected && (strings.Contains(f.Source, b.Needle) || strings.Contains(header(lines, f.Line), b.Needle)) {
			at = append(at, fmt.Sprintf("%s %s %d", f.Rule, f.Severity, f.Line))
		}
	}
	return at
}

// header is the def line of the function around a line: some needles name a function.
func header(lines []string, line int) string {
	for i := min(line, len(lines)) - 1; i >= 0; i-- {
		if text := strings.TrimLeft(lines[i], " \t"); strings.HasPrefix(text, "def ") && (i == line-1 || len(lines[i])-len(text) < len(lines[line-1])-len(strings.TrimLeft(lines[line-1], " \t"))) {
			return text
		}
	}
	return ""
}
