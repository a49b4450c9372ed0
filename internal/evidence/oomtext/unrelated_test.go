package oomtext

import (
	"os"
	"strings"
	"testing"
)

// Logs of compilers, tests, servers, other CUDA errors, time-outs, hints and source code say nothing about memory that ran out.
func TestUnrelatedLogsRaiseNothing(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("testdata/unrelated.txt")
	if err != nil {
		t.Fatal(err)
	}
	logs := strings.Split(strings.TrimSpace(string(b)), "\n----\n")
	if len(logs) < 100 {
		t.Fatalf("only %d logs", len(logs))
	}
	for _, log := range logs {
		for _, m := range read(t, log) {
			t.Errorf("read as %s:\n%s", brief(m), log)
		}
	}
	for _, m := range read(t, strings.Join(logs, "\n")) {
		t.Errorf("all together: %s: %s", brief(m), m.Text)
	}
}
