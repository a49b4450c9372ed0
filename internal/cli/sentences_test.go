package cli

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/testkit/goldentest"
)

// TestSentencesCanBeReadInOneGo writes every sentence that a user can see (screens, help, errors, findings, lint rules, what the probe
// prints, the page) to one file. Read its diff when it changes: is each line plain English?
func TestSentencesCanBeReadInOneGo(t *testing.T) {
	var out strings.Builder
	out.WriteString("# Every sentence a user can see, by source file. Generated: go test ./internal/cli -run Sentences -update\n")
	files := sentences(t)
	for _, f := range files {
		fmt.Fprintf(&out, "\n## %s\n", f.path)
		for _, s := range f.texts {
			out.WriteString(strings.TrimRight(s, "\n ") + "\n")
		}
	}
	if len(files) < 100 {
		t.Errorf("only %d files with sentences: the collector misses some", len(files))
	}
	goldentest.Check(t, filepath.Join("testdata", "sentences.txt"), []byte(out.String()))
}

// stumbles are phrases that readers stumbled over, and others of the same kind. They are matched as whole words.
var stumbles = regexp.MustCompile(`(?i)\b(for want of|missing to the|weighs? otherwise|wrong given|ever in use at once|held by the dead|has one micro-batch|` +
	`as it may be changed|micro-batches a batch|in goe?s? (a|an|the|words|numbers|text)\b|; out comes?|thereof|whereof|therein|wherein|whence|hitherto|thither|` +
	`nought|unto|to be had|no part in it|hangs? from|little is to be won|lets go of|begins so|strconv|so many micro|context deadline exceeded)\b`)

// TestNoSentenceMakesReadersStumble checks what the program says, and every page of the documentation.
func TestNoSentenceMakesReadersStumble(t *testing.T) {
	check := func(where, text string) {
		if phrase := stumbles.FindString(strings.Join(strings.Fields(text), " ")); phrase != "" {
			t.Errorf("%s says %q, which readers stumbled over: %.200s", where, phrase, text)
		}
	}
	for _, f := range sentences(t) {
		for _, s := range f.texts {
			check(f.path, s)
		}
	}
	for _, page := range pagesOfDocs(t) {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for paragraph := range strings.SplitSeq(string(b), "\n\n") {
			check(page, paragraph)
		}
	}
}

// pagesOfDocs lists the README and every page of docs/.
func pagesOfDocs(t *testing.T) []string {
	t.Helper()
	root := filepath.Join("..", "..")
	pages := []string{filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md"), filepath.Join(root, "CHANGELOG.md")}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// said is what one file says to users.
type said struct {
	path  string
	texts []string
}

// silent are folders whose strings no user sees.
var silent = []string{"testdata", "testkit", "archtest", "probetest", "grow", "node_modules"}

// sentences collects the string literals of the program that read like text, in the order of the source.
func sentences(t *testing.T) []said {
	t.Helper()
	root := filepath.Join("..", "..")
	var all []said
	for _, folder := range []string{"cmd", "internal", "snapshot"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() && slices.Contains(silent, d.Name()) {
				return cmpOr(err, filepath.SkipDir)
			}
			if d.IsDir() || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			read := map[string]func(*testing.T, string) []string{".go": goTexts, ".py": pyTexts, ".ts": scriptTexts, ".html": scriptTexts}[filepath.Ext(path)]
			if read == nil {
				return nil
			}
			if texts := slices.DeleteFunc(read(t, path), func(s string) bool { return !readsLikeText(s) }); len(texts) > 0 {
				name, err := filepath.Rel(root, path)
				all = append(all, said{filepath.ToSlash(name), texts})
				return err
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func cmpOr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

var (
	words   = regexp.MustCompile(`[A-Za-z]['a-z]+ +(%\S+ +|[A-Z0-9“"(]*)?[a-z]+`)
	pattern = regexp.MustCompile(`\(\?[:i<P]|\\[bdsw.(\[]|\[\^`)
)

// readsLikeText tells sentences from identifiers, patterns and templates of code.
func readsLikeText(s string) bool { return words.MatchString(s) && !pattern.MatchString(s) }

// wordless are calls whose strings are compared, not printed.
var wordless = []string{"regexp.MustCompile", "strings.Contains", "strings.HasPrefix", "strings.HasSuffix", "strings.Index", "strings.Cut", "strings.CutPrefix",
	"strings.CutSuffix", "strings.Count", "strings.ReplaceAll", "panic", "bytes.Contains", "bytes.HasPrefix"}

func goTexts(t *testing.T, path string) []string {
	t.Helper()
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			n.Tag = nil
		case *ast.CallExpr:
			if slices.Contains(wordless, called(n)) {
				return false
			}
		case *ast.BinaryExpr:
			if text, literal := joined(n); literal {
				texts = append(texts, text)
				return false
			}
		case *ast.BasicLit:
			if text, literal := joined(n); literal {
				texts = append(texts, text)
			}
		}
		return true
	})
	return texts
}

func called(c *ast.CallExpr) string {
	switch fun := c.Fun.(type) {
	case *ast.Ident:
		return fun.Name
	case *ast.SelectorExpr:
		if x, ok := fun.X.(*ast.Ident); ok {
			return x.Name + "." + fun.Sel.Name
		}
	}
	return ""
}

// joined is a literal, or a sum of literals and other things, which show as an ellipsis.
func joined(e ast.Expr) (text string, literal bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		if e.Op != token.ADD {
			return "", false
		}
		left, l := joined(e.X)
		right, r := joined(e.Y)
		return left + right, l || r
	}
	return "…", false
}

// pyTexts are the strings of a Python file that are not docstrings.
func pyTexts(t *testing.T, path string) []string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, m := range pyString.FindAllStringSubmatch(string(b), -1) {
		if m[1] == "" { // no docstring
			texts = append(texts, m[2]+m[3])
		}
	}
	return texts
}

var pyString = regexp.MustCompile(`(?s)("""(?:.*?)"""|#[^\n]*)|"((?:[^"\\\n]|\\.)*)"|'((?:[^'\\\n]|\\.)*)'`)

// scriptTexts are the strings of the page's program and the text of its markup.
func scriptTexts(t *testing.T, path string) []string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, m := range scriptString.FindAllStringSubmatch(string(b), -1) {
		texts = append(texts, m[1]+m[2]+m[3]+m[4])
	}
	return texts
}

var scriptString = regexp.MustCompile("//[^\\n]*|/\\*(?s:.*?)\\*/|\"((?:[^\"\\\\\\n]|\\\\.)*)\"|'((?:[^'\\\\\\n]|\\\\.)*)'|`((?:[^`\\\\]|\\\\.)*)`|>([^<>{}]+)<")
