package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/snapshot"
)

type broken struct{}

func (broken) Write([]byte) (int, error) { panic("broken\x1b[31m writer") }

func TestABugIsReportedAndNotDumped(t *testing.T) {
	t.Parallel()
	var stderr strings.Builder
	env := Env{Stdin: strings.NewReader(""), Stdout: broken{}, Stderr: &stderr, Getenv: func(string) string { return "" }}
	if code := Run(context.Background(), env, []string{"explain", recordings + "mlp-adam.pickle.gz"}); code != exitFailure {
		t.Errorf("exit %d", code)
	}
	for _, want := range []string{"this is a bug in plimsoll", "version " + Version, "plimsoll explain", "crash_test.go"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("%q is missing in %s", want, stderr.String())
		}
	}
	if strings.Contains(stderr.String()[:200], "\x1b") {
		t.Error("an escape sequence reaches the terminal")
	}
}

func TestABundleHasTheReportAndTheInputWithoutNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	input, bundle := filepath.Join(dir, "secret-project.json"), filepath.Join(dir, "bug.tar.gz")
	text := `{"segments":[],"device_traces":[[{"action":"alloc","addr":512,"size":512,"frames":[{"name":"train_gpt7","filename":"/home/wyn/secret/train.py","line":3}]}]]}`
	if err := os.WriteFile(input, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	env := Env{Stdin: strings.NewReader(""), Stdout: broken{}, Stderr: &stderr, Getenv: func(string) string { return "" }}
	if code := Run(context.Background(), env, []string{"explain", "--bundle", bundle, input}); code != exitFailure || !strings.Contains(stderr.String(), "wrote "+bundle) {
		t.Fatalf("exit %d: %s", code, stderr.String())
	}
	f, err := os.Open(bundle)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for in := tar.NewReader(z); ; {
		h, err := in.Next()
		if err != nil {
			break
		}
		data, _ := io.ReadAll(in)
		files[h.Name] = string(data)
	}
	copied := files["input3.json"]
	if len(files) != 2 || len(copied) != len(text) || !strings.Contains(copied, `"action":"alloc","addr":512,"size":512`) || !strings.Contains(files["report.txt"], "version") {
		t.Errorf("%q", files)
	}
	for name, data := range files {
		for _, secret := range []string{"secret", "wyn", "gpt7"} {
			if strings.Contains(data, secret) {
				t.Errorf("%s tells %q: %s", name, secret, data)
			}
		}
	}
}

func TestScrubbedPicklesAreReadTheSame(t *testing.T) {
	t.Parallel()
	f, err := os.Open("../../testdata/formats/protocol4.pickle")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	was, err := snapshot.Read(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	is, err := snapshot.Read(bytes.NewReader(scrub(data)))
	if err != nil || len(is.Segments) != len(was.Segments) || is.Traces[0].Len() != was.Traces[0].Len() {
		t.Errorf("%v", err)
	}
}

func TestMaxMemoryIsToldInTheError(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "big.json")
	events := strings.Repeat(`{"action":"alloc","addr":512,"size":512},`, 30000)
	if err := os.WriteFile(path, []byte(`{"segments":[],"device_traces":[[`+strings.TrimSuffix(events, ",")+`]]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := invoke(t, "", "explain", "--max-memory", "1MiB", path)
	if code != exitUnreadable || !strings.Contains(stderr, "would need more than") || !strings.Contains(stderr, "--max-memory raises the limit") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	if code, _, stderr := invoke(t, "", "explain", "--max-memory", "1GiB", path); code == exitUnreadable {
		t.Errorf("exit %d: %s", code, stderr)
	}
	if code, _, stderr := invoke(t, "", "explain", "--max-memory", "lots", path); code != exitUsage {
		t.Errorf("exit %d: %s", code, stderr)
	}
}
