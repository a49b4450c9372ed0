package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	importTS = regexp.MustCompile(`(?m)^(?:import|export)\s[^;]*?from\s+"\./(\w+)"`)
	typeOnly = regexp.MustCompile(`(?m)^import type\s[^;]*;`)
	importPy = regexp.MustCompile(`(?m)^\s*from\s+\.(\w*)\s+import\s+([\w, ]+)|^\s*import\s+plimsoll\.(\w+)|^\s*from\s+plimsoll(?:\.(\w+))?\s+import\s+([\w, ]+)`)
)

func TestThePageAndTheProbeHaveNoImportCycles(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	ts := imports(t, filepath.Join(root, "internal/show/page/src", "*.ts"), ".ts", func(text string) []string {
		var out []string
		for _, m := range importTS.FindAllStringSubmatch(typeOnly.ReplaceAllString(text, ""), -1) {
			out = append(out, m[1])
		}
		return out
	})
	py := imports(t, filepath.Join(root, "internal/script/probe/python/plimsoll", "*.py"), ".py", func(text string) []string {
		var out []string
		for _, m := range importPy.FindAllStringSubmatch(text, -1) {
			names := []string{m[1], m[3], m[4]}
			if m[1] == "" && m[3] == "" && m[4] == "" { // from . import a, b
				names = strings.FieldsFunc(m[2]+","+m[5], func(r rune) bool { return r == ',' || r == ' ' })
			}
			out = append(out, names...)
		}
		return out
	})
	for what, graph := range map[string]map[string][]string{"TypeScript": ts, "Python": py} {
		if len(graph) < 3 {
			t.Fatalf("only %d %s modules were found", len(graph), what)
		}
		if cycle := findCycle(graph); cycle != nil {
			t.Errorf("%s modules import each other: %s", what, strings.Join(cycle, " → "))
		}
	}
}

// imports reads which modules of a folder import which others of it.
func imports(t *testing.T, glob, suffix string, of func(string) []string) map[string][]string {
	t.Helper()
	files, err := filepath.Glob(glob)
	if err != nil {
		t.Fatal(err)
	}
	graph := map[string][]string{}
	for _, f := range files {
		graph[strings.TrimSuffix(filepath.Base(f), suffix)] = nil
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		module := strings.TrimSuffix(filepath.Base(f), suffix)
		for _, name := range of(string(b)) {
			if _, known := graph[name]; known && name != module {
				graph[module] = append(graph[module], name)
			}
		}
	}
	return graph
}

// findCycle gives modules that import each other in a circle, or nil.
func findCycle(graph map[string][]string) []string {
	done := map[string]bool{}
	var path []string
	var visit func(string) []string
	visit = func(m string) []string {
		if at := slices.Index(path, m); at >= 0 {
			return append(slices.Clone(path[at:]), m)
		}
		if done[m] {
			return nil
		}
		path = append(path, m)
		for _, next := range graph[m] {
			if c := visit(next); c != nil {
				return c
			}
		}
		path = path[:len(path)-1]
		done[m] = true
		return nil
	}
	for m := range graph {
		if c := visit(m); c != nil {
			return c
		}
	}
	return nil
}
