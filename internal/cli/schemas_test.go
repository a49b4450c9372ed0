package cli

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/holders"
	"github.com/plimsoll/plimsoll/internal/script/observe"
	"github.com/plimsoll/plimsoll/internal/show/lintout"
	"github.com/plimsoll/plimsoll/internal/testkit/goldentest"
	"github.com/plimsoll/plimsoll/internal/testkit/schema"
)

// documents are the forms of all --json answers and of files that plimsoll writes.
var documents = map[string]struct {
	form  reflect.Type
	title string
}{
	report.ExplainSchema: {reflect.TypeFor[report.Explain](), "plimsoll explain --json"},
	report.DiffSchema:    {reflect.TypeFor[report.Diff](), "plimsoll diff --json"},
	report.ReplaySchema:  {reflect.TypeFor[report.Replay](), "plimsoll replay --json"},
	report.PredictSchema: {reflect.TypeFor[report.Prediction](), "plimsoll predict --json, one object per line"},
	report.FitSchema:     {reflect.TypeFor[report.Fit](), "plimsoll fit --json"},
	report.WatchSchema:   {reflect.TypeFor[report.Watch](), "plimsoll watch --json, one object per line"},
	report.DoctorSchema:  {reflect.TypeFor[report.Doctor](), "plimsoll doctor --json"},
	lintout.Schema:       {reflect.TypeFor[lintout.Document](), "plimsoll lint --json"},
	viewSchema:           {reflect.TypeFor[viewed](), "plimsoll view --json"},
	versionSchema:        {reflect.TypeFor[build](), "plimsoll version --json"},

	report.PredictDiffSchema: {reflect.TypeFor[report.PredictDiff](), "plimsoll diff --json of two predictions"},
	observe.Schema:           {reflect.TypeFor[observe.Record](), "run.json of plimsoll run --report"},
	holders.Schema:           {reflect.TypeFor[holders.File](), "NAME.holders.json.zlib beside a recording, decompressed"},
}

func published(name string) *schema.Schema {
	return schema.Of(documents[name].form, name, documents[name].title)
}

// TestSchemasArePublished keeps docs/schemas equal to the types. A change that takes something away needs another version.
func TestSchemasArePublished(t *testing.T) {
	t.Parallel()
	for name := range documents {
		text, err := json.MarshalIndent(published(name), "", " ")
		if err != nil {
			t.Fatal(err)
		}
		file := strings.TrimPrefix(strings.ReplaceAll(name, "/", "-v"), "plimsoll.") + ".schema.json"
		goldentest.Check(t, filepath.Join("../../docs/schemas", file), append(text, '\n'))
	}
}

// TestAnswersFollowTheirSchemas validates what commands print.
func TestAnswersFollowTheirSchemas(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "config.json")
	write(t, config, `{"model_type":"gpt2","n_layer":2,"n_embd":64,"n_head":4,"vocab_size":100,"n_positions":64}`)
	script := filepath.Join(t.TempDir(), "train.py")
	write(t, script, "import torch\nlosses = []\nfor x in loader:\n    loss = model(x)\n    losses.append(loss)\n")
	page := filepath.Join(t.TempDir(), "page.html")
	for name, commands := range map[string][][]string{
		report.ExplainSchema: {{"explain", "--json", recordings + "mlp-adam.pickle.gz"}, {"explain", "--json", recordings + "oom-batch.pickle.gz"}, {"explain", "--json", "../../docs/answers/message.txt"}},
		report.DiffSchema:    {{"diff", "--json", recordings + "mlp-adam.pickle.gz", recordings + "float64.pickle.gz"}},
		report.ReplaySchema:  {{"replay", "--json", recordings + "oom-batch.pickle.gz"}},
		report.PredictSchema: {{"predict", "--json", "--config", config, "--batch", "2", "--seq", "16", "--timeline", "50"}},
		report.FitSchema:     {{"fit", "--json", "--config", config, "--batch", "2", "--seq", "16", "--gpu", "h100"}},
		report.DoctorSchema:  {{"doctor", "--json"}},
		report.WatchSchema:   {{"watch", "--demo", "--once", "--json"}},
		lintout.Schema:       {{"lint", "--json", script}},
		versionSchema:        {{"version", "--json"}},
		viewSchema:           {{"view", "--json", "--html", page, recordings + "mlp-adam.pickle.gz"}},
	} {
		for _, args := range commands {
			_, stdout, stderr := invoke(t, "", args...)
			if err := published(name).Valid([]byte(stdout)); err != nil {
				t.Errorf("%v: %v; %s", args, err, stderr)
			}
		}
	}
}

// TestFilesFollowTheirSchemas validates what plimsoll run wrote on a card, and a comparison of two predictions.
func TestFilesFollowTheirSchemas(t *testing.T) {
	t.Parallel()
	found, err := filepath.Glob("../../testdata/bench/unseen/run/v0*/*.holders.json.gz")
	if err != nil || len(found) == 0 {
		t.Fatalf("no holders to validate: %v", err)
	}
	for _, path := range found {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		unpacked, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(unpacked)
		if err != nil {
			t.Fatal(err)
		}
		if err := published(holders.Schema).Valid(text); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	folder := t.TempDir()
	for _, command := range []string{"exit 0", "echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.' >&2; exit 1", "kill -9 $$"} {
		got := runs(t, nil, "run", "--report", folder, "--", "sh", "-c", command)
		text, err := os.ReadFile(filepath.Join(folder, "run.json"))
		if err != nil {
			t.Fatalf("%v: %s", err, got.stderr)
		}
		if err := published(observe.Schema).Valid(text); err != nil {
			t.Errorf("run.json of %q: %v", command, err)
		}
	}
	for name, batch := range map[string]string{"base.json": "2", "head.json": "4"} {
		config := filepath.Join(folder, "config.json")
		write(t, config, `{"model_type":"gpt2","n_layer":2,"n_embd":64,"n_head":4,"vocab_size":100,"n_positions":64}`)
		_, stdout, _ := invoke(t, "", "predict", "--json", "--config", config, "--batch", batch, "--seq", "16", "--gpu", "h100")
		write(t, filepath.Join(folder, name), stdout)
	}
	_, stdout, stderr := invoke(t, "", "diff", "--json", filepath.Join(folder, "base.json"), filepath.Join(folder, "head.json"))
	if err := published(report.PredictDiffSchema).Valid([]byte(stdout)); err != nil {
		t.Errorf("diff of two predictions: %v; %s", err, stderr)
	}
}
