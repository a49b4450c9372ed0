package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/show/screen"
)

// TestTheLimitThePeakAndTheCauseAreOfOneFile explains folders in which several recordings failed under different limits: headline, numbers and cause speak of
// the same one.
func TestTheLimitThePeakAndTheCauseAreOfOneFile(t *testing.T) {
	t.Parallel()
	for _, names := range [][]string{{"oom-batch", "leak-oom"}, {"leak-oom", "oom-batch", "gpt2-amp"}, {"gpt2-amp", "alloc-varlen-default-capped", "oom-model-load"}} {
		dir := t.TempDir()
		for i, from := range names {
			b, err := os.ReadFile(recordings + from + ".pickle.gz")
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("rank%d-%s.pickle.gz", i, from)), b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		e := explained(t, dir)
		text := strings.Join(strings.Fields(plimsollAt(t, 80, "explain", dir).stdout), " ")
		name, _, _ := strings.Cut(text, ": GPU ")
		i := slices.IndexFunc(e.Devices, func(d report.Device) bool { return filepath.Base(d.Input) == name })
		if i < 0 || len(e.Devices[i].OOM) == 0 {
			t.Errorf("%v: the headline names no recording that failed: %.300s", names, text)
			continue
		}
		d := e.Devices[i]
		limit := fmt.Sprintf("of the %s this process", d.OOM[len(d.OOM)-1].Capacity)
		peak := fmt.Sprintf("%s, GPU 0 %s in use at the peak %s reserved by PyTorch", name, d.Peak.Requested, d.Peak.Reserved)
		if !strings.Contains(text, limit) || !strings.Contains(text, peak) || e.Findings[0].Input != d.Input {
			t.Errorf("%v: want %q, %q and a cause of %s (it is of %s) in: %.500s", names, limit, peak, d.Input, e.Findings[0].Input, text)
		}
	}
}

// TestALogsLimitIsThatOfItsOwnRun explains a folder with the recordings of two runs and the log of one of them: the limit in the log is not the other one's.
func TestALogsLimitIsThatOfItsOwnRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"oom-batch", "leak-oom"} {
		b, err := os.ReadFile(recordings + name + ".pickle.gz")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".pickle.gz"), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "leak.log"), "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 MiB. GPU 0 has a total capacity of 139.80 GiB of which 100.00 GiB is free. "+
		"Including non-PyTorch memory, this process has 4.60 GiB memory in use. 4.00 GiB allowed; Of the allocated memory 3.99 GiB is allocated by PyTorch, and 1.00 MiB is reserved by PyTorch but unallocated.")
	limits := map[string]string{}
	for _, d := range explained(t, dir).Devices {
		limits[filepath.Base(d.Input)] = fmt.Sprint(d.OOM[len(d.OOM)-1].Capacity.Short(), " by ", d.OOM[len(d.OOM)-1].CapacityFrom)
	}
	if limits["oom-batch.pickle.gz"] != "16.0 GiB by bounds" || limits["leak-oom.pickle.gz"] != "4.0 GiB by message" {
		t.Errorf("limits %v", limits)
	}
}

// TestAFolderOfRanksNamesEachFileByWhatDiffers keeps rows of a table apart.
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
