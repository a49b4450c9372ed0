package cli

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// TestTheSameInputGivesTheSameBytes runs every command that reads files on one processor and on several, with other seeds of maps each time. It is not
// parallel: the number of processors is that of the whole process.
func TestTheSameInputGivesTheSameBytes(t *testing.T) {
	dir := t.TempDir()
	config, jobs, script := filepath.Join(dir, "config.json"), filepath.Join(dir, "jobs.jsonl"), filepath.Join(dir, "train.py")
	const model = `{"model_type":"gpt2","n_layer":2,"n_embd":64,"n_head":4,"vocab_size":100,"n_positions":64}`
	write(t, config, model)
	write(t, jobs, `{"id":"a","config":`+model+`,"batch":1,"seq":8}`+"\n{\n"+`{"id":"b","config":`+model+`,"batch":4,"seq":16,"optimizer":"sgd"}`+"\n")
	write(t, script, "import torch\ntotal = 0\nfor x in loader:\n    loss = model(x)\n    total += loss\n    kept.append(loss)\n")
	failed, other := recordings+"oom-batch.pickle.gz", recordings+"mlp-adam.pickle.gz"
	for _, args := range [][]string{
		{"explain", failed}, {"explain", "--json", failed, other}, {"explain", "--folded", failed}, {"diff", "--json", other, failed}, {"replay", "--json", failed},
		{"predict", "--json", "--config", config, "--batch", "2", "--seq", "16", "--timeline", "50"}, {"predict", "--config", config, "--seq", "16", "--sweep", "batch=1..8,precision=fp32,amp-bf16"},
		{"predict", "--jobs", jobs, "--json"}, {"fit", "--json", "--config", config, "--batch", "2", "--seq", "16", "--gpu", "h100"},
		{"lint", "--json", script}, {"lint", "--sarif", script}, {"view", "--html", filepath.Join(dir, "page.html"), failed},
	} {
		was := runtime.GOMAXPROCS(1)
		code, stdout, stderr := invoke(t, "", args...)
		page := read(t, filepath.Join(dir, "page.html"))
		runtime.GOMAXPROCS(4)
		codeAgain, stdoutAgain, stderrAgain := invoke(t, "", args...)
		pageAgain := read(t, filepath.Join(dir, "page.html"))
		runtime.GOMAXPROCS(was)
		if code != codeAgain || stdout != stdoutAgain || stderr != stderrAgain || page != pageAgain {
			t.Errorf("%v gives two answers:\n%.2000s\n%.2000s", args, stdout, stdoutAgain)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// read is the content of a file, empty where there is none.
func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(data)
}
