package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/show/screen"
)

// TestAFolderOfRanksNamesEachFileByWhatDiffers keeps rows of a table apart, and one file's limit away from another's peak.
func TestAFolderOfRanksNamesEachFileByWhatDiffers(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a-folder-with-a-rather-long-name-for-a-screen")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{"oom-batch": "snapshot-of-the-training-run-rank-0", "gpt2-amp": "snapshot-of-the-training-run-rank-1"} {
		b, err := os.ReadFile(recordings + from + ".pickle.gz")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, to+".pickle.gz"), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, columns := range []int{60, 80} {
		r := plimsollAt(t, columns, "explain", dir)
		if !strings.Contains(r.stdout, "rank-0.pickle.gz") || !strings.Contains(r.stdout, "rank-1.pickle.gz") {
			t.Errorf("at %d columns the files cannot be told apart:\n%s", columns, r.stdout)
		}
	}
}

// TestSixtyColumnsAreEnough runs every kind of answer in a narrow terminal: no line is wider, so none is broken by the terminal.
func TestSixtyColumnsAreEnough(t *testing.T) {
	t.Parallel()
	tiny := tinyModel(t)
	for _, args := range [][]string{
		{},
		{"explain", recordings + "oom-batch.pickle.gz"},
		{"explain", recordings + "leak-oom.pickle.gz"},
		{"explain", recordings + "oom-batch.pickle.gz", recordings + "gpt2-amp.pickle.gz"},
		{"replay", recordings + "alloc-varlen-default-capped.pickle.gz"},
		{"replay", recordings + "oom-batch.pickle.gz"},
		{"diff", recordings + "alloc-varlen-default.pickle.gz", recordings + "alloc-varlen-expandable.pickle.gz"},
		{"diff", recordings + "alloc-varlen-default.pickle.gz", recordings + "gpt2-amp.pickle.gz"},
		{"predict", "--config", tiny, "--batch", "64", "--seq", "2048", "--precision", "amp-bf16", "--memory", "2GiB"},
		{"predict", "--config", tiny, "--seq", "1024", "--sweep", "batch=1..4,precision=fp32,amp-bf16", "--gpu", "a100-40g"},
		{"fit", "--config", tiny, "--seq", "2048", "--effective-batch", "16", "--precision", "bf16", "--memory", "1GiB"},
		{"fit", "--config", tiny, "--seq", "2048", "--effective-batch", "16", "--memory", "0.5GiB"},
		{"fit", tiny, "--gpu", "rtx-4090"},
		{"lint", "testdata/lint/train.py"},
		{"watch", "--demo", "--once"},
	} {
		for line := range strings.SplitSeq(plimsollAt(t, 60, args...).stdout, "\n") {
			if n := screen.Columns(line); n > 60 && !unbreakable(line) {
				t.Errorf("plimsoll %s: %d columns: %s", strings.Join(args, " "), n, line)
			}
		}
	}
}

// unbreakable tells a line that holds one long word, or a command that must stay on one line to be copied.
func unbreakable(line string) bool {
	text := strings.TrimSpace(line)
	flag, value, _ := strings.Cut(strings.TrimSuffix(text, " \\"), " ")
	if strings.HasPrefix(flag, "--") && !strings.Contains(value, " ") { // of a command over several lines
		return true
	}
	return !strings.Contains(text, " ") || strings.HasPrefix(text, "export ") || strings.HasPrefix(text, "plimsoll ")
}

// plimsollAt runs a command line in a terminal of so many columns.
func plimsollAt(t *testing.T, columns int, args ...string) result {
	t.Helper()
	var out, err bytes.Buffer
	env := Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &err, Getenv: func(string) string { return "" }, Style: screen.Style{Width: columns}}
	code := Run(context.Background(), env, args)
	return result{out.String(), err.String(), code}
}
