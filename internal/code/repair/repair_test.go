package repair_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aymanbagabas/go-udiff"

	"github.com/plimsoll/plimsoll/internal/code/lint"
	"github.com/plimsoll/plimsoll/internal/code/pysource"
	"github.com/plimsoll/plimsoll/internal/code/repair"
	"github.com/plimsoll/plimsoll/internal/testkit/goldentest"
)

// checked looks at a source with every rule and offers repairs.
func checked(src []byte) *lint.Report {
	report := lint.Check("t.py", src, nil)
	repair.Offer(repair.Unit{Path: "t.py", Source: src, Check: func(edits []pysource.Edit) *lint.Report {
		return lint.Check("t.py", pysource.Apply(src, edits), nil)
	}}, report)
	return report
}

// examples are the snippets of the rules' own tests.
func examples(t testing.TB, id string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "lint", "testdata", "examples", id+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, part := range strings.Split("\n"+string(text), "\n### ")[1:] {
		header, code, _ := strings.Cut(part, "\n")
		if out[header] = "import torch\n" + strings.TrimRight(code, "\n") + "\n"; id == "LM040" { // settings come before the import
			out[header] = code
		}
	}
	return out
}

// Every repair of the rules' bad examples, reviewed by eye.
func TestRepairsOfTheExamples(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, id := range repair.Rules() {
		n := 0
		for _, title := range sorted(examples(t, id)) {
			src := []byte(examples(t, id)[title])
			for _, f := range checked(src).Findings {
				if f.Rule != id || f.Repair == nil {
					continue
				}
				n++
				diff := udiff.Unified("", "", string(src), string(pysource.Apply(src, f.Repair.Edits)))
				_, diff, _ = strings.Cut(diff, "\n+++ \n")
				fmt.Fprintf(&b, "%s %s\n%s (%s)\n%s\n", id, title, f.Repair.Title, map[bool]string{true: "safe", false: "unsafe"}[f.Repair.Safe], diff)
			}
		}
		if n == 0 {
			t.Errorf("%s: none of its examples can be repaired", id)
		}
	}
	goldentest.Check(t, filepath.Join("testdata", "examples.golden"), []byte(b.String()))
}

func sorted(m map[string]string) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func TestTheDocumentationNamesTheRulesWithFixes(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "..", "docs", "lint.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(page), "<!-- fixes -->")
	_, tail, closed := strings.Cut(rest, "<!-- end of fixes -->")
	if !found || !closed {
		t.Fatal("docs/lint.md has lost the marks around the rules with fixes")
	}
	goldentest.Check(t, path, []byte(head+"<!-- fixes -->"+strings.Join(repair.Rules(), ", ")+"<!-- end of fixes -->"+tail))
}
