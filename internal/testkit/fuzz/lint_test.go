package fuzz

import (
	"bytes"
	"testing"

	"github.com/plimsoll/plimsoll/internal/code/lint"
	"github.com/plimsoll/plimsoll/internal/code/pysource"
	"github.com/plimsoll/plimsoll/internal/testkit/hostile"
)

// linting lints programs that nearly make sense: findings stand in the file, and what a repair makes of it can be linted again.
func linting(f fuzzer) {
	hostile.Seed(f)
	f.Fuzz(func(t *testing.T, choices []byte) {
		src := []byte(hostile.Text(hostile.Source, hostile.FromBytes(choices)))
		found := lint.Source("t.py", src, lint.Options{Select: []string{"ALL"}})
		lines := bytes.Count(src, []byte("\n")) + 1
		for _, x := range found {
			if x.Line < 1 || x.Line > lines || x.Column < 1 || x.Message == "" || x.Fix == "" {
				t.Fatalf("of %d lines: %+v", lines, x)
			}
			if err := hostile.CheckJSON(x); err != nil {
				t.Fatal(err)
			}
		}
		for _, x := range found {
			if x.Repair != nil {
				lint.Source("t.py", pysource.Apply(src, x.Repair.Edits), lint.Options{})
			}
		}
	})
}
