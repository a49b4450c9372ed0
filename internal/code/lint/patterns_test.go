package lint_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/code/lint"
)

// The fifteen patterns of popular answers about out-of-memory errors, as whole programs: every finding, notes too, is marked.
func TestPopularPatternsGetTheirVerdict(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("testdata", "patterns.txt"))
	if err != nil {
		t.Fatal(err)
	}
	programs := strings.Split("\n"+string(text), "\n### ")[1:]
	if len(programs) != 15 {
		t.Errorf("%d patterns, not fifteen", len(programs))
	}
	for _, program := range programs {
		title, code, _ := strings.Cut(program, "\n")
		var got []string
		for _, f := range lint.Source("train.py", []byte(code), lint.Options{}) {
			got = append(got, fmt.Sprintf("%d %s %s", f.Line, f.Rule, f.Severity))
		}
		want := marked(code)
		sort.Strings(want)
		sort.Strings(got)
		if strings.Join(want, "; ") != strings.Join(got, "; ") {
			t.Errorf("%s\n want %v\n  got %v", title, want, got)
		}
	}
}

// What is often said and is false must not come from here: a missing zero_grad fills no memory, accumulation alone saves
// none, autocast leaves parameters, gradients and optimizer state as they are.
func TestPopularFalseAdviceIsNeverGiven(t *testing.T) {
	t.Parallel()
	said := strings.ToLower(lint.Page("LM017") + lint.Page("LM010") + lint.Page("LM025") + lint.Page("LM011"))
	for _, truth := range []string{"it does not, since the sum is made in place", "accumulation by itself saves no memory", "keeps parameters, gradients and optimizer state in float32", "not memory"} {
		if !strings.Contains(said, truth) {
			t.Errorf("the pages no longer say %q", truth)
		}
	}
	for _, r := range lint.Rules() {
		page := strings.ToLower(lint.Page(r.ID))
		for _, lie := range []string{"halves the memory", "halves everything", "reduces memory by accumulating", "forget zero_grad and run out", "entire dataset"} {
			if strings.Contains(page, lie) {
				t.Errorf("%s repeats %q", r.ID, lie)
			}
		}
	}
	found := lint.Source("t.py", []byte("import torch\nfor x, y in loader:\n    criterion(model(x), y).backward()\n    optimizer.step()\n"), lint.Options{})
	if len(found) != 1 || !strings.Contains(found[0].Message, "costs no memory") {
		t.Errorf("a missing zero_grad is described as %v", found)
	}
}
