package cli

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSessionsInTheDocsAreReal runs every "$ plimsoll …" line of a ```console block in the README and docs/ and compares what
// follows with what it prints. With -update the documents are rewritten. Commands run in the root of the repository.
func TestSessionsInTheDocsAreReal(t *testing.T) {
	t.Chdir("../..")
	pages := []string{"README.md"}
	err := filepath.WalkDir("docs", func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	sessions := 0
	for _, page := range pages {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		got, n := rerun(t, string(b))
		sessions += n
		if got == string(b) {
			continue
		}
		if flag.Lookup("update").Value.String() == "true" {
			if err := os.WriteFile(page, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		t.Errorf("%s shows a session that is not what the program prints (go test ./internal/cli -run Sessions -update rewrites it):\n%s", page, firstDifference(string(b), got))
	}
	if sessions == 0 {
		t.Error("no session found in the docs")
	}
}

// rerun returns the page with every session as the program prints it now.
func rerun(t *testing.T, page string) (string, int) {
	t.Helper()
	var out []string
	sessions := 0
	inside, skip := false, false
	for line := range strings.SplitSeq(page, "\n") {
		switch {
		case strings.HasPrefix(line, "```console"):
			inside, skip = true, false
		case strings.HasPrefix(line, "```"):
			inside, skip = false, false
		case inside && strings.HasPrefix(line, "$ plimsoll "):
			out = append(out, line)
			out = append(out, session(t, strings.TrimPrefix(line, "$ plimsoll "))...)
			sessions++
			skip = true
			continue
		case inside && strings.HasPrefix(line, "$ "):
			skip = false
		}
		if !skip {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n"), sessions
}

func session(t *testing.T, command string) []string {
	t.Helper()
	r := plimsoll(t, "", fields(command)...)
	var lines []string
	if text := strings.TrimRight(r.stdout, "\n"); text != "" {
		lines = strings.Split(text, "\n")
	}
	if text := strings.TrimRight(r.stderr, "\n"); text != "" {
		lines = append(lines, strings.Split(text, "\n")...)
	}
	return lines
}

// fields splits a command line at spaces, double quotes kept together.
func fields(command string) []string {
	var out []string
	for i, part := range strings.Split(command, `"`) {
		if i%2 == 1 {
			out = append(out, part)
		} else {
			out = append(out, strings.Fields(part)...)
		}
	}
	return out
}

func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return "page:    " + x[i] + "\nprogram: " + y[i]
		}
	}
	return "one is longer than the other"
}

// TestTablesNameTestsThatExist: where a page says that a test shows something, there is such a test.
func TestTablesNameTestsThatExist(t *testing.T) {
	t.Parallel()
	tests := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		for _, m := range declared.FindAllStringSubmatch(string(b), -1) {
			tests[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pagesOfDocs(t) {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile("`(Test[A-Z]\\w+)`").FindAllStringSubmatch(string(b), -1) {
			if !tests[m[1]] {
				t.Errorf("%s names the test %s, which does not exist", page, m[1])
			}
		}
	}
}
