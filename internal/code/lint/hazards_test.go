package lint_test

import (
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
)

// Programs that would crash, learn something else or lose data if the usual advice of a rule were followed, each below "### RULE situation". What is still
// reported in them is marked; a mark that ends with "safe" allows a fix that nobody looks at.
func TestAdviceBreaksNoProgram(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("testdata", "hazards.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range strings.Split("\n"+string(text), "\n### ")[1:] {
		title, code, _ := strings.Cut(program, "\n")
		rule, _, _ := strings.Cut(title, " ")
		want, got := marked(code), found(code, rule)
		sort.Strings(want)
		sort.Strings(got)
		if strings.Join(want, "; ") != strings.Join(got, "; ") {
			t.Errorf("%s\n want %v\n  got %v\n%s", title, want, got, code)
		}
	}
}
