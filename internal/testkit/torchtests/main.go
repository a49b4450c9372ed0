// Command torchtests names the tests that need PyTorch: those that reach package probetest, by themselves or through functions of their test files.
//
// It takes the repository it is started in and prints arguments of go test: -run with the names, then the packages, the one with the most tests first, as it takes longest.
// The other tests of these packages need no PyTorch and are run by make test.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	found, err := list(".")
	if err != nil {
		fmt.Fprintln(os.Stderr, "torchtests:", err)
		os.Exit(1)
	}
	var folders, tests []string
	for folder, names := range found {
		folders, tests = append(folders, "./"+folder), append(tests, names...)
	}
	slices.SortFunc(folders, func(a, b string) int { return len(found[b[2:]]) - len(found[a[2:]]) })
	slices.Sort(tests)
	fmt.Printf("-run ^(%s)$ %s\n", strings.Join(tests, "|"), strings.Join(folders, " "))
}

// list finds the tests of every folder below root.
func list(root string) (map[string][]string, error) {
	files := map[string][]*ast.File{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		files[filepath.Dir(path)] = append(files[filepath.Dir(path)], file)
		return err
	})
	found := map[string][]string{}
	for folder, parsed := range files {
		if tests := reaching(parsed); len(tests) > 0 {
			found[folder] = tests
		}
	}
	return found, err
}

// reaching are the tests among some files that reach package probetest.
func reaching(files []*ast.File) []string {
	mentions := map[string]map[string]bool{} // by function or method: every name in its body
	for _, file := range files {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				if mentions[f.Name.Name] == nil {
					mentions[f.Name.Name] = map[string]bool{}
				}
				ast.Inspect(f.Body, func(n ast.Node) bool {
					if id, ok := n.(*ast.Ident); ok {
						mentions[f.Name.Name][id.Name] = true
					}
					return true
				})
			}
		}
	}
	reach := map[string]bool{"probetest": true}
	for grew := true; grew; {
		grew = false
		for name, body := range mentions {
			for other := range body {
				if reach[other] && !reach[name] {
					reach[name], grew = true, true
				}
			}
		}
	}
	var tests []string
	for name := range mentions {
		if reach[name] && strings.HasPrefix(name, "Test") {
			tests = append(tests, name)
		}
	}
	slices.Sort(tests)
	return tests
}
