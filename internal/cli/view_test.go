package cli

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestViewWritesAPageIntoOneFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "report.html")
	r := plimsoll(t, "", "view", "--html", file, recordings+"oom-batch.pickle.gz")
	if r.code != exitOK || !strings.Contains(r.stderr, "wrote "+file) || r.stdout != "" {
		t.Fatalf("exit %d, stdout %q, stderr %q", r.code, r.stdout, r.stderr)
	}
	b := carriedPage(t, file)
	if !bytes.HasPrefix(b, []byte("<!doctype html>")) || !bytes.Contains(b, []byte("ran out of memory in the forward pass")) {
		t.Error("the file is not the page of this recording")
	}
}

// carriedPage is a page in one file with the data it carries, unpacked, at its end.
func carriedPage(t *testing.T, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := bytes.Cut(b, []byte(`id="data">`))
	data, _, _ := bytes.Cut(rest, []byte("</script>"))
	z, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, bytes.NewReader(data)))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return append(b, plain...)
}

func TestViewRefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "nothing.txt")
	if err := os.WriteFile(empty, []byte("all is well\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"view", "no-such-file"}, {"view", "--html", filepath.Join(t.TempDir(), "x.html"), "no-such-file"}, {"view", "--no-browser", empty},
	} {
		if r := plimsoll(t, "", args...); r.code != exitUnreadable || r.stderr == "" {
			t.Errorf("plimsoll %v: exit %d, stderr %q", args, r.code, r.stderr)
		}
	}
}

// A job that cannot be predicted has no page, so no address is printed for one.
func TestViewOfABrokenJobPrintsNoAddress(t *testing.T) {
	t.Parallel()
	job := filepath.Join(t.TempDir(), "job.json")
	for _, text := range []string{"not a job", `{"batch":2}`, `{"config":{"model_type":"gpt2","n_layer":0},"batch":1,"seq":8}`} {
		write(t, job, text)
		for _, args := range [][]string{{"view", "--no-browser", "--job", job}, {"view", "--no-browser", "--json", "--job", job}} {
			if r := plimsoll(t, "", args...); r.code == exitOK || r.stdout != "" || strings.Contains(r.stderr, "address") {
				t.Errorf("%s: plimsoll %v: exit %d, stdout %q, stderr %q", text, args, r.code, r.stdout, r.stderr)
			}
		}
	}
}

func TestViewServesUntilItIsStopped(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	out, in := io.Pipe()
	opened := make(chan string, 1)
	env := Env{Stdin: strings.NewReader(""), Stdout: in, Stderr: io.Discard, Getenv: func(string) string { return "" }, Browse: func(file string) error {
		info, err := os.Stat(file)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("others may read the address: %v, %v", info, err)
		}
		b, err := os.ReadFile(file)
		opened <- regexp.MustCompile(`http://[^"]+`).FindString(string(b))
		return err
	}}
	code := make(chan int)
	go func() { code <- Run(ctx, env, []string{"view", recordings + "mlp-adam.pickle.gz"}) }()
	go io.Copy(io.Discard, out)
	answer, err := http.Get(<-opened + "api/summary")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if b, _ := io.ReadAll(answer.Body); !bytes.Contains(b, []byte(`"headline":"GPU 0 never ran out of memory here`)) {
		t.Errorf("the summary is %.200s", b)
	}
	stop()
	if got := <-code; got != exitOK {
		t.Errorf("exit %d", got)
	}
}
