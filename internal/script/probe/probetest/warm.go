package probetest

import (
	"bufio"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

//go:embed warm.py
var warm []byte

// server is the warm process of a test binary; it ends when the binary does, because its standard input ends, and takes its folder with it.
var server struct {
	once  sync.Once
	stand string // an executable that stands in for the interpreter
	stdin io.WriteCloser
	err   error
}

// Warm is an interpreter like Python's that runs every script in a copy of one process which has imported PyTorch already: a start takes
// milliseconds. Tests of how an interpreter starts, and of what it inherits, use Python.
func Warm(t *testing.T) string {
	t.Helper()
	python := Python(t)
	server.once.Do(func() { server.stand, server.err = serve(python) })
	if server.err != nil {
		t.Logf("no warm process: %v", server.err)
		return python
	}
	return server.stand
}

func serve(python string) (string, error) {
	dir, err := os.MkdirTemp("", "warm-python-")
	if err != nil {
		return "", fmt.Errorf("make a folder: %w", err)
	}
	script, socket, stand := filepath.Join(dir, "warm.py"), filepath.Join(dir, "socket"), filepath.Join(dir, "python")
	if err := os.WriteFile(script, warm, 0o600); err != nil {
		return "", err
	}
	// -S and -E: the stand-in needs nothing of the environment, and the probe must not start in it.
	line := fmt.Sprintf("#!/bin/sh\nPLIMSOLL_WARM=%s exec %s -S -E %s run %s \"$@\"\n", stand, python, script, socket)
	if err := os.WriteFile(stand, []byte(line), 0o700); err != nil {
		return "", err
	}
	cmd := exec.Command(python, script, "serve", socket)
	cmd.Env = without(os.Environ(), "PYTHONPATH", "PLIMSOLL_MODE", "PLIMSOLL_REPORT", "PLIMSOLL_FIT")
	cmd.Stderr = os.Stderr
	if server.stdin, err = cmd.StdinPipe(); err != nil {
		return "", err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	if said, err := bufio.NewReader(out).ReadString('\n'); err != nil || strings.TrimSpace(said) != "ready" {
		return "", fmt.Errorf("the warm process said %q: %v", said, err)
	}
	return stand, nil
}

func without(env []string, names ...string) []string {
	var kept []string
	for _, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		drop := false
		for _, n := range names {
			drop = drop || n == name
		}
		if !drop {
			kept = append(kept, entry)
		}
	}
	return kept
}
