package diagnose_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/finding"
)

// emitted lists the ids of the findings that this package can make: literals in the ID field of a finding, the first word of a clue,
// the first argument of symptom.
func emitted(t *testing.T) []string {
	t.Helper()
	files, _ := filepath.Glob("*.go")
	found := map[string]bool{}
	keep := func(e ast.Expr) {
		if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
			id, _ := strconv.Unquote(l.Value)
			found[id] = true
		}
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				if k, ok := n.Key.(*ast.Ident); ok && k.Name == "ID" {
					keep(n.Value)
				}
			case *ast.AssignStmt:
				if s, ok := n.Lhs[0].(*ast.SelectorExpr); ok && s.Sel.Name == "ID" {
					keep(n.Rhs[0])
				}
			case *ast.CallExpr:
				if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "symptom" {
					keep(n.Args[0])
				}
			case *ast.CompositeLit:
				if a, ok := n.Type.(*ast.ArrayType); ok && isIdent(a.Elt, "clue") {
					for _, e := range n.Elts {
						keep(e.(*ast.CompositeLit).Elts[0])
					}
				}
			}
			return true
		})
	}
	var ids []string
	for id := range found {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func isIdent(e ast.Expr, name string) bool {
	i, ok := e.(*ast.Ident)
	return ok && i.Name == name
}

func TestTheCatalogueHasEveryFindingThatRulesMakeAndNoOther(t *testing.T) {
	t.Parallel()
	listed := slices.Sorted(slices.Values(finding.IDs()))
	if can := emitted(t); !slices.Equal(listed, can) {
		t.Errorf("listed and not made: %v; made and not listed: %v", missing(listed, can), missing(can, listed))
	}
}

func missing(from, in []string) []string {
	return slices.DeleteFunc(slices.Clone(from), func(s string) bool { return slices.Contains(in, s) })
}

// Every finding has a made-up program, a recording or a message that must get it first.
func TestEveryFindingIsProvenByATest(t *testing.T) {
	t.Parallel()
	var proven []string
	for _, s := range sicknesses() {
		proven = append(proven, s.id)
	}
	for _, m := range messages() {
		proven = append(proven, m.id)
	}
	if left := missing(emitted(t), proven); len(left) > 0 {
		t.Errorf("no test gets %v first", left)
	}
}
