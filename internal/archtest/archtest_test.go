// Package archtest holds the tree to its own architecture.
//
// In go the source files of the module; out come failures where a package imports upward, lacks a comment that tells what goes
// in, what comes out and what is refused, touches the outside world from a pure rank, or has grown past its budget.
package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/plimsoll/plimsoll/"

// ranks orders the packages: one may import only packages of a strictly lower rank. A negative sign marks
// the live column, which touches the machine; no pure package imports it, whatever its rank.
var ranks = map[string]int{
	"internal/units":    1,
	"snapshot":          3,
	"internal/tape":     2,
	"internal/screen":   2,
	"internal/python":   1,
	"internal/flow":     4,
	"internal/lint":     6,
	"internal/lintout":  7,
	"internal/pickle":   1,
	"internal/report":   2,
	"internal/notes":    2,
	"internal/attempt":  3,
	"internal/oomtext":  2,
	"internal/tensor":   3,
	"internal/eager":    20,
	"internal/arch":     22,
	"internal/cost":     21,
	"internal/predict":  24,
	"internal/plan":     26,
	"internal/forecast": 25,
	"internal/handover": 4,
	"internal/shard":    6,
	"internal/alloc":    4,
	"internal/reel":     4,
	"internal/recorded": 4,
	"internal/origin":   4,
	"internal/timeline": 5,
	"internal/lod":      6,
	"internal/replay":   6,
	"internal/diagnose": 8,
	"internal/compare":  8,
	"internal/explain":  9,
	"internal/textout":  10,
	"internal/page":     10,
	"internal/web":      -20,
	"internal/traceout": 10,
	"internal/runner":   -49,
	"internal/probe":    -50,
	"internal/capture":  -51,
	"internal/cli":      -90,
	"cmd/plimsoll":      -100,
	"internal/hfconfig": 3,
	"internal/spelling": 1,
	"internal/gpu":      5,
	"internal/job":      3,
	"internal/opgraph":  3,

	// What the machine's GPUs do now. The conclusions are pure; only asking the machine is not.
	"internal/sample":  10,
	"internal/simgpu":  11,
	"internal/doctor":  11,
	"internal/nvml":    -12,
	"internal/proc":    -12,
	"internal/machine": -15,
	"internal/metrics": -30,
	"internal/tui":     -30,

	// Imported by tests only.
	"internal/goldentest":      1,
	"internal/probe/probetest": -1,
	"internal/recordtest":      4,
	"internal/archtest":        99,
}

// forTests are packages that only tests import; they read files.
var forTests = map[string]bool{"internal/goldentest": true, "internal/recordtest": true}

// Budgets. A package listed in overBudget has a reason to be larger.
const (
	maxFileLines = 600
	maxFuncLines = 80
)

var overBudget = map[string]string{}

// effects are imports a pure package may not have.
var effects = []string{"os", "os/exec", "net", "net/http", "syscall", "log", "log/slog"}

type file struct {
	path, pkg string
	ast       *ast.File
	fset      *token.FileSet
}

func TestPackagesImportOnlyDownward(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		rank, ok := ranks[f.pkg]
		if !ok {
			t.Errorf("package %s has no rank; give it one in archtest", f.pkg)
			continue
		}
		for _, spec := range f.ast.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			if inner, ok := strings.CutPrefix(path, module); ok {
				checkImport(t, f, rank, inner)
				continue
			}
			for _, e := range effects {
				if path == e && rank > 0 && !forTests[f.pkg] {
					t.Errorf("%s: pure package imports %q", f.path, path)
				}
			}
		}
	}
}

func checkImport(t *testing.T, f file, rank int, inner string) {
	to, ok := ranks[inner]
	switch {
	case !ok:
		t.Errorf("%s imports %s, which has no rank", f.path, inner)
	case abs(to) >= abs(rank):
		t.Errorf("%s (rank %d) imports %s (rank %d): imports go strictly downward", f.path, abs(rank), inner, abs(to))
	case rank > 0 && to < 0:
		t.Errorf("%s: a pure package imports %s of the live column", f.path, inner)
	}
}

func TestEveryPackageTellsItsStory(t *testing.T) {
	t.Parallel()
	longest := map[string]int{}
	for _, f := range sources(t) {
		if f.ast.Doc != nil {
			longest[f.pkg] = max(longest[f.pkg], len(strings.Split(strings.TrimSpace(f.ast.Doc.Text()), "\n")))
		} else {
			longest[f.pkg] += 0
		}
	}
	for pkg, lines := range longest {
		if lines < 3 && !strings.HasPrefix(pkg, "cmd/") {
			t.Errorf("package %s: the package comment has %d lines; say what goes in, what comes out, what is refused", pkg, lines)
		}
	}
}

func TestFilesAndFunctionsStayWithinBudget(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		if overBudget[f.path] != "" {
			continue
		}
		if n := f.fset.Position(f.ast.End()).Line; n > maxFileLines {
			t.Errorf("%s has %d lines, more than %d", f.path, n, maxFileLines)
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			n := f.fset.Position(fn.End()).Line - f.fset.Position(fn.Pos()).Line + 1
			if n > maxFuncLines && overBudget[f.path+":"+fn.Name.Name] == "" {
				t.Errorf("%s: function %s has %d lines, more than %d", f.path, fn.Name.Name, n, maxFuncLines)
			}
			if fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s: init() is not used here; build values where they are needed", f.path)
			}
		}
	}
}

func sources(t *testing.T) []file {
	t.Helper()
	root := filepath.Join("..", "..")
	var files []file
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".git") || nestedModule(root, path)) {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		files = append(files, file{filepath.ToSlash(rel), filepath.ToSlash(filepath.Dir(rel)), parsed, fset})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// nestedModule tells whether a folder below the root has a go.mod of its own.
func nestedModule(root, path string) bool {
	if path == root {
		return false
	}
	found, _ := filepath.Glob(filepath.Join(path, "go.mod"))
	return len(found) > 0
}

func abs(n int) int { return max(n, -n) }
