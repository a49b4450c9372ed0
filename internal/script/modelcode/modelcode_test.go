package modelcode

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/model/job"
)

// pretend is a Python that has what it is told and answers every model with one small graph, or with a refusal; it counts how often it was asked.
func pretend(t *testing.T, dir, versions, refusal string) string {
	t.Helper()
	graph, err := filepath.Abs(filepath.Join("testdata", "graph.json"))
	if err != nil {
		t.Fatal(err)
	}
	answer := `cp "` + graph + `" "$out"; echo 0`
	if refusal != "" {
		answer = `printf '{"why":"` + refusal + `"}' > "$out.failure"; echo 1`
	}
	script := "#!/bin/sh\nif [ \"$1\" = -c ]; then\n" + versions + "\nelse\necho ready\nwhile read -r request out; do\necho x >> '" + filepath.Join(dir, "asked") + "'\n" + answer + "\ndone\nfi\n"
	path := filepath.Join(dir, "python")
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func asked(dir string) int {
	data, _ := os.ReadFile(filepath.Join(dir, "asked"))
	return strings.Count(string(data), "x")
}

func reader(t *testing.T, versions, refusal string) (*Reader, string) {
	dir := t.TempDir()
	if versions == "" {
		versions = `echo '{"torch":"2.11.0","version":"5.17.0","site":"` + dir + `"}'`
	}
	return &Reader{Python: pretend(t, dir, versions, refusal), Cache: filepath.Join(dir, "cache"), Env: os.Environ()}, dir
}

func TestAnotherBatchAndSequenceNeedNoPython(t *testing.T) {
	t.Parallel()
	r, dir := reader(t, "", "")
	config := []byte(`{"model_type":"x"}`)
	g, err := r.Graph(job.Job{Batch: 2, Seq: 8}, config)
	if err != nil || g.Trace == nil || g.Trace.Class != "XForCausalLM" {
		t.Fatalf("%v, %v", g, err)
	}
	again := &Reader{Python: r.Python, Cache: r.Cache, Env: r.Env}
	if _, err := again.Graph(job.Job{Batch: 64, Seq: 4096}, config); err != nil || asked(dir) != 1 {
		t.Errorf("other sizes: %v, Python was asked %d times", err, asked(dir))
	}
	if _, err := again.Graph(job.Job{Batch: 2, Seq: 8, ParamDType: "bf16"}, config); err != nil || asked(dir) != 2 {
		t.Errorf("another precision: %v, Python was asked %d times", err, asked(dir))
	}
	if _, err := again.Graph(job.Job{Batch: 2, Seq: 8}, []byte(`{"model_type":"x","hidden_size":8}`)); err != nil || asked(dir) != 3 {
		t.Errorf("another configuration: %v, Python was asked %d times", err, asked(dir))
	}
}

func TestABrokenGraphInTheCacheIsReadAgain(t *testing.T) {
	t.Parallel()
	r, dir := reader(t, "", "")
	if _, err := r.Graph(job.Job{Batch: 2, Seq: 8}, []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(r.Cache, "*.graph"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	if err := os.WriteFile(files[0], []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	again := &Reader{Python: r.Python, Cache: r.Cache, Env: r.Env}
	if _, err := again.Graph(job.Job{Batch: 2, Seq: 8}, []byte(`{}`)); err != nil || asked(dir) != 2 {
		t.Errorf("%v, Python was asked %d times", err, asked(dir))
	}
}

func TestWhatIsMissingIsSaid(t *testing.T) {
	t.Parallel()
	r, _ := reader(t, `echo transformers >&2; exit 1`, "")
	if _, err := r.Graph(job.Job{Batch: 1, Seq: 8}, []byte(`{}`)); !errors.Is(err, ErrNoPython) || !strings.Contains(err.Error(), "pip install torch transformers") {
		t.Errorf("without transformers: %v", err)
	}
	r = &Reader{Python: "/nowhere/python", Cache: t.TempDir()}
	if _, err := r.Graph(job.Job{Batch: 1}, []byte(`{}`)); !errors.Is(err, ErrNoPython) || !strings.Contains(err.Error(), "--python") {
		t.Errorf("no such interpreter: %v", err)
	}
	r, _ = reader(t, "", "no model_type x")
	var failed Failed
	if _, err := r.Graph(job.Job{Batch: 1, Seq: 8}, []byte(`{}`)); !errors.As(err, &failed) || failed.Why != "no model_type x" {
		t.Errorf("a refusal: %v", err)
	}
}

func TestAPythonThatEndsIsToldOfAndStartedAgain(t *testing.T) {
	t.Parallel()
	r, dir := reader(t, "", "")
	answers, err := os.ReadFile(r.Python)
	if err != nil {
		t.Fatal(err)
	}
	dies := strings.Replace(string(answers), "echo x", "exit 3\necho x", 1)
	for _, script := range []string{dies, strings.Replace(dies, "echo ready", "exit 4", 1)} {
		if err := os.WriteFile(r.Python, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		var failed Failed
		if _, err := r.Graph(job.Job{Batch: 1, Seq: 8}, []byte(`{}`)); !errors.As(err, &failed) || !strings.Contains(failed.Why, "Python ended") {
			t.Errorf("%v", err)
		}
	}
	if err := os.WriteFile(r.Python, answers, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Graph(job.Job{Batch: 1, Seq: 8}, []byte(`{}`)); err != nil || asked(dir) != 1 {
		t.Errorf("%v, asked %d times", err, asked(dir))
	}
}

func TestAModelIsLocatedByFileFolderIndexOrName(t *testing.T) {
	t.Parallel()
	hub, folder := t.TempDir(), t.TempDir()
	write := func(path string) string {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	config := write(filepath.Join(folder, "config.json"))
	index := write(filepath.Join(folder, "model.safetensors.index.json"))
	old := write(filepath.Join(hub, "models--Qwen--Qwen3-8B", "snapshots", "aaa", "config.json"))
	main := write(filepath.Join(hub, "models--Qwen--Qwen3-8B", "snapshots", "bbb", "config.json"))
	env := []string{"HF_HUB_CACHE=" + hub}
	for name, want := range map[string]string{folder: config, config: config, index: config, "Qwen/Qwen3-8B": old} {
		if got, err := Locate(name, env); err != nil || got.Path != want {
			t.Errorf("%s: %s, %v", name, got.Path, err)
		}
	}
	ref := filepath.Join(hub, "models--Qwen--Qwen3-8B", "refs", "main")
	write(ref)
	if err := os.WriteFile(ref, []byte("bbb\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Locate("Qwen/Qwen3-8B", env); err != nil || got.Path != main {
		t.Errorf("the revision that main is: %s, %v", got.Path, err)
	}
	var absent NotCached
	if _, err := Locate("Qwen/Qwen3-4B", env); !errors.As(err, &absent) || !strings.Contains(err.Error(), `hf download Qwen/Qwen3-4B --include "*config.json"`) {
		t.Errorf("a model that is not there: %v", err)
	}
	for _, name := range []string{"nowhere/config.json", "../../etc/passwd", "a/b/c", ""} {
		if found, err := Locate(name, env); err == nil || errors.As(err, &absent) {
			t.Errorf("%q: %s, %v", name, found.Path, err)
		}
	}
}
