// Package probetest finds the Python that tests of the probe run against.
//
// It takes a test and returns the path of an interpreter with PyTorch, from PLIMSOLL_PYTHON (scripts/python-env.sh makes one). Without it the test
// is skipped; make test-torch sets it. It is imported by tests only.
package probetest

import (
	"os"
	"testing"
)

// Python is the interpreter to test with.
func Python(t *testing.T) string {
	t.Helper()
	python := os.Getenv("PLIMSOLL_PYTHON")
	if python == "" {
		t.Skip("needs PyTorch: make test-torch runs this test")
	}
	return python
}
