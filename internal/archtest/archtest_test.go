// Package archtest holds the tree to its own architecture.
//
// It takes the source files of the module and returns failures where a package imports upward, lacks a comment that tells what goes
// in, what comes out and what is refused, touches the outside world from a pure rank, or has grown past its budget.
package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/plimsoll/plimsoll/"

// A layer is a named group of packages. Both the layers and the packages in one are in order: a package imports only packages that
// stand before it.
type layer struct {
	name     string
	effects  bool // its packages may touch the machine; no package of another kind of layer imports them
	packages []string
}

// layers is the whole house, from the ground up. docs/architecture.md describes the same list.
var layers = []layer{
	{name: "words", packages: []string{"internal/units", "internal/spelling", "internal/document", "internal/torch", "internal/setup"}},
	{name: "evidence: what people have", packages: []string{
		"internal/evidence/pickle", "snapshot", "internal/memory/tape", "internal/evidence/recording", "internal/evidence/callsite",
		"internal/evidence/oomtext", "internal/evidence/probenotes", "internal/evidence/holders",
	}},
	{name: "report: what every answer is made of", packages: []string{"internal/answer/report"}},
	{name: "memory: what the allocator does with it", packages: []string{"internal/memory/alloc", "internal/memory/course", "internal/memory/timeline", "internal/memory/replay", "internal/gpu"}},
	{name: "model: a training step, computed", packages: []string{
		"internal/model/tensor", "internal/model/cudnn", "internal/model/hfconfig", "internal/model/exported", "internal/model/job", "internal/model/lengths", "internal/model/shard", "internal/model/deepen",
		"internal/model/eager", "internal/model/families", "internal/model/graphrun", "internal/model/traced",
	}},
	{name: "answer: conclusions", packages: []string{
		"internal/answer/finding", "internal/answer/diagnose", "internal/answer/compare", "internal/answer/explain", "internal/answer/cost", "internal/answer/predict",
		"internal/answer/wholerun", "internal/answer/plan", "internal/answer/planfile",
	}},
	{name: "code: what source says", packages: []string{"internal/code/pysource", "internal/code/notebook", "internal/code/flow", "internal/code/lint", "internal/code/repair", "internal/code/baseline", "internal/code/blame"}},
	{name: "watch: what the machine's cards do now", packages: []string{"internal/live/watch", "internal/live/simgpu", "internal/live/doctor"}},
	{name: "script: deciding how a script may fit", packages: []string{"internal/script/attempt", "internal/script/forecast", "internal/script/verdict"}},
	{name: "show: how answers look", packages: []string{
		"internal/show/screen", "internal/show/viewdata", "internal/show/textout", "internal/show/traceout", "internal/show/lintout", "internal/show/page",
	}},
	{name: "machine: what asks and changes the outside", effects: true, packages: []string{
		"scripts/gpu", "internal/live/nvml", "internal/live/amdgpu", "internal/live/proc", "internal/live/machine", "internal/live/listener", "internal/live/metrics", "internal/live/otlp", "internal/code/workspace", "internal/code/langserver",
		"internal/script/runner", "internal/script/probe", "internal/script/capture", "internal/script/modelcode", "internal/script/verify", "internal/script/observe", "internal/script/fitrun",
		"internal/show/web", "internal/show/tui", "internal/show/mcpserver",
	}},
	{name: "command line", effects: true, packages: []string{"internal/cli", "cmd/plimsoll"}},
	{name: "for tests and releases", effects: true, packages: []string{
		"internal/model/cudnn/grow", "internal/release", "internal/testkit/goldentest", "internal/testkit/recordtest", "internal/testkit/measured", "internal/testkit/hostile", "internal/testkit/fuzz", "internal/testkit/schema", "internal/testkit/torchtests", "internal/script/probe/probetest", "internal/archtest",
	}},
}

// place is where a package stands: its number in the order, and whether it may touch the machine.
type place struct {
	order   int
	effects bool
}

func places() map[string]place {
	out := map[string]place{}
	for _, l := range layers {
		for _, p := range l.packages {
			out[p] = place{len(out) + 1, l.effects}
		}
	}
	return out
}

// Budgets. A package listed in overBudget has a reason to be larger.
const (
	maxFileLines = 600
	maxFuncLines = 80
)

var overBudget = map[string]string{}

// effects are imports a pure package may not have.
var effects = []string{"os", "os/exec", "net", "net/http", "syscall", "log", "log/slog"}

// interpreters call methods by name: with one of them in it, the linker keeps every exported method of every type, 5 MB of the binary.
var interpreters = []string{"text/template", "html/template"}

type file struct {
	path, pkg string
	ast       *ast.File
	fset      *token.FileSet
}

func TestPackagesImportOnlyDownward(t *testing.T) {
	t.Parallel()
	known := places()
	for _, f := range sources(t) {
		at, ok := known[f.pkg]
		if !ok {
			t.Errorf("package %s stands in no layer; give it a place in archtest", f.pkg)
			continue
		}
		for _, spec := range f.ast.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			if inner, ok := strings.CutPrefix(path, module); ok {
				to, known := known[inner]
				switch {
				case !known:
					t.Errorf("%s imports %s, which stands in no layer", f.path, inner)
				case to.order >= at.order:
					t.Errorf("%s imports %s, which stands after it: imports go strictly downward", f.path, inner)
				case to.effects && !at.effects:
					t.Errorf("%s: a pure package imports %s, which touches the machine", f.path, inner)
				}
			} else if slices.Contains(effects, path) && !at.effects {
				t.Errorf("%s: pure package imports %q", f.path, path)
			} else if slices.Contains(interpreters, path) && at.order <= known["cmd/plimsoll"].order {
				t.Errorf("%s imports %q, which keeps the linker from leaving out what nobody calls", f.path, path)
			}
		}
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

func TestTheMapNamesEveryPackage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range places() {
		if !strings.Contains(string(page), "`"+pkg+"`") {
			t.Errorf("docs/architecture.md does not name %s", pkg)
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
