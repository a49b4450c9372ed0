package lint_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/code/lint"
)

// example is one snippet of testdata/examples: "### bad: title" with its findings marked, or "### good: title".
type example struct {
	title string
	bad   bool
	code  string
}

func examples(t testing.TB, id string) []example {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "examples", id+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	var out []example
	for _, part := range strings.Split("\n"+string(text), "\n### ")[1:] {
		header, code, _ := strings.Cut(part, "\n")
		kind, title, _ := strings.Cut(header, ": ")
		out = append(out, example{title, kind == "bad", code})
	}
	return out
}

var mark = regexp.MustCompile(`# <- (LM\d+) (\w+)`)

// marked lists what the comments of a snippet expect: "line rule severity".
func marked(code string) []string {
	var out []string
	for i, line := range strings.Split(code, "\n") {
		for _, m := range mark.FindAllStringSubmatch(line, -1) {
			out = append(out, fmt.Sprintf("%d %s %s", i+1, m[1], m[2]))
		}
	}
	return out
}

// found lists the findings that must be marked: those of the rule itself, and of any other rule from warning up.
func found(code, id string) []string {
	var out []string
	if !strings.Contains(code, "from torch") { // it marks the snippet as PyTorch; at the end it moves no line
		code += "\nimport torch\n"
	}
	for _, f := range lint.Source("train.py", []byte(code), lint.Options{Select: []string{"ALL"}}) {
		if f.Rule == id || f.Severity >= lint.Warning {
			out = append(out, fmt.Sprintf("%d %s %s", f.Line, f.Rule, f.Severity))
		}
	}
	return out
}

func TestEveryRuleFindsItsMistakesAndNothingElse(t *testing.T) {
	t.Parallel()
	for _, r := range lint.Rules() {
		t.Run(r.ID, func(t *testing.T) {
			t.Parallel()
			bad, good, real := 0, 0, 0
			for _, e := range examples(t, r.ID) {
				want, got := marked(e.code), found(e.code, r.ID)
				sort.Strings(want)
				sort.Strings(got)
				if strings.Join(want, "; ") != strings.Join(got, "; ") {
					t.Errorf("%s\n want %v\n  got %v\n%s", e.title, want, got, e.code)
				}
				if e.bad {
					bad++
				} else {
					good++
				}
				if strings.HasPrefix(e.title, "shape of real code: ") {
					real++
				}
				if e.bad != strings.Contains(e.code, "# <- "+r.ID) {
					t.Errorf("%s: marked as the wrong kind of example", e.title)
				}
			}
			if bad < 3 || good < 3 || real < 1 {
				t.Errorf("%d bad and %d good examples, %d in the shape of real code; three, three and one are the least", bad, good, real)
			}
		})
	}
}

func TestEveryPageShowsAMistakeAndItsCure(t *testing.T) {
	t.Parallel()
	for _, r := range lint.Rules() {
		if !strings.Contains(strings.Join(found(lint.Example(r.ID, "Wrong"), r.ID), " "), r.ID) {
			t.Errorf("%s: the wrong example is not found", r.ID)
		}
		if got := found(lint.Example(r.ID, "Right"), r.ID); len(got) > 0 || lint.Example(r.ID, "Right") == "" {
			t.Errorf("%s: the right example gives %v", r.ID, got)
		}
	}
}
