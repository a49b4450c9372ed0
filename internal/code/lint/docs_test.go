package lint_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/code/lint"
	"github.com/plimsoll/plimsoll/internal/testkit/goldentest"
)

func TestDocumentationListsEveryRule(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "..", "docs", "lint.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(text), "-update -->\n")
	_, tail, closed := strings.Cut(rest, "<!-- end of rules -->")
	if !found || !closed {
		t.Fatal("docs/lint.md has lost the marks around its table of rules")
	}
	var b strings.Builder
	b.WriteString(head + "-update -->\n| rule | name | at worst | what it finds |\n|---|---|---|---|\n")
	for _, r := range lint.Rules() {
		severity := r.Severity.String()
		if r.Quiet {
			severity += ", quiet"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.ID, r.Name, severity, r.Summary)
	}
	b.WriteString("<!-- end of rules -->" + tail)
	goldentest.Check(t, path, []byte(b.String()))
}

func TestEveryPageHasItsPartsAndTitle(t *testing.T) {
	t.Parallel()
	for i, r := range lint.Rules() {
		if want := fmt.Sprintf("LM%03d", i+1); r.ID != want {
			t.Errorf("rule %d is %s", i+1, r.ID)
		}
		page, err := os.ReadFile(filepath.Join("pages", r.ID+".md"))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"# " + r.ID + " " + r.Name + "\n", "\n## Wrong\n", "\n## Right\n", "\n## Silent when\n", "\n## Sources\n"} {
			if !strings.Contains(string(page), part) {
				t.Errorf("%s: the page lacks %q", r.ID, strings.TrimSpace(part))
			}
		}
	}
}
