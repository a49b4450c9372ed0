// Package probetest finds the Python that tests of the probe run against.
//
// In goes a test; out comes the path of an interpreter with PyTorch, from PLIMSOLL_PYTHON (scripts/python-env.sh makes one). Without it the test
// is skipped, but never where CI is set: there it fails. It is imported by tests only.
package probetest

import (
	"os"
	"testing"
)

// Python is the interpreter to test with.
func Python(t *testing.T) string {
	t.Helper()
	python := os.Getenv("PLIMSOLL_PYTHON")
	switch {
	case python != "":
		return python
	case os.Getenv("CI") != "":
		t.Fatal("PLIMSOLL_PYTHON is not set; scripts/python-env.sh prints what to set it to")
	}
	t.Skip("needs PyTorch: PLIMSOLL_PYTHON=$(scripts/python-env.sh)")
	return ""
}
