package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/testkit/goldentest"
)

const (
	llamaConfig = "testdata/predict/llama-1b.json"
	graphs      = "../model/exported/testdata/"
)

// invoke runs one command line and gives its exit code, data and talk.
func invoke(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, talk bytes.Buffer
	env := Env{Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &talk, Getenv: func(string) string { return "" }}
	return Run(context.Background(), env, args), out.String(), talk.String()
}

func TestPredictScreens(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code int
		args []string
	}{
		"does-not-fit": {3, []string{"predict", "--config", llamaConfig, "--batch", "4", "--seq", "2048", "--precision", "amp-bf16", "--gpu", "rtx-4090"}},
		"graph-fits":   {0, []string{"predict", "--graph", graphs + "resnet18.json.gz", "--batch", "64", "--loss", "cross-entropy", "--optimizer", "sgdm", "--gpu", "l4"}},
		"sharded":      {0, []string{"predict", "--config", llamaConfig, "--batch", "1", "--seq", "2048", "--precision", "bf16", "--gpu", "rtx-4090", "--gpus", "4", "--sharding", "fsdp2", "--tensor", "2"}},
		"sweep":        {3, []string{"predict", "--config", llamaConfig, "--sweep", "batch=1..4,seq=512,1024,precision=bf16", "--memory", "16GiB"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := invoke(t, "", c.args...)
			if code != c.code || stderr != "" {
				t.Errorf("exit code %d, want %d; stderr %q", code, c.code, stderr)
			}
			goldentest.Check(t, filepath.Join("testdata", "predict", name+".txt"), []byte(stdout))
			for _, line := range strings.Split(stdout, "\n") {
				if n := len([]rune(line)); n > 80 {
					t.Errorf("line of %d columns: %s", n, line)
				}
			}
		})
	}
}

func TestPredictJSONHasTheFieldsOfItsContract(t *testing.T) {
	t.Parallel()
	code, stdout, _ := invoke(t, "", "predict", "--graph", graphs+"seed-mlp.json.gz", "--batch", "64", "--loss", "cross-entropy", "--json", "--gpu", "h200")
	if code != 0 {
		t.Fatalf("exit code %d", code)
	}
	var fields map[string]any
	if err := json.Unmarshal([]byte(stdout), &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"schema", "id", "params", "after_load", "peak", "safe", "phase", "phases", "by_category", "capacity", "fits", "assumptions"} {
		if _, ok := fields[name]; !ok {
			t.Errorf("no field %s", name)
		}
	}
	categories := fields["by_category"].(map[string]any)
	sum := 0.0
	for _, name := range []string{"parameters", "gradients", "optimizer", "activations", "inputs", "workspace", "other"} {
		v, ok := categories[name].(float64)
		if !ok {
			t.Errorf("no category %s", name)
		}
		sum += v
	}
	if peak := fields["peak"].(map[string]any)["allocated"].(float64); sum != peak {
		t.Errorf("categories sum to %.0f, the peak is %.0f", sum, peak)
	}
}

func TestPredictJobsPrintsOneLineAJobInOrder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	graph, err := os.ReadFile(graphs + "seed-cnn.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	jobs := `{"id":"a","graph":"cnn.json.gz","loss":"cross-entropy","batch":8}
{"id":"b","graph":"cnn.json.gz","loss":"cross-entropy","batch":16}
{"id":"c","graph":"cnn.json.gz","loss":"cross-entropy","batch":32}
`
	for name, data := range map[string][]byte{"cnn.json.gz": graph, "jobs.jsonl": []byte(jobs)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, stdout, stderr := invoke(t, "", "predict", "--jobs", filepath.Join(dir, "jobs.jsonl"), "--json")
	if code != 0 || stderr != "" {
		t.Fatalf("exit code %d, stderr %s", code, stderr)
	}
	last := report.Prediction{}
	ids := ""
	for line := range strings.Lines(stdout) {
		var r report.Prediction
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r.Peak.Allocated < last.Peak.Allocated {
			t.Errorf("job %s needs less than %s", r.ID, last.ID)
		}
		ids += r.ID
		last = r
	}
	if ids != "abc" {
		t.Errorf("order %s", ids)
	}
}

// A Python that cannot read models is asked once, however many jobs would need it, and what to install is told once.
func TestJobsAskAPythonWithoutTransformersOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	python, started := filepath.Join(dir, "python"), filepath.Join(dir, "started")
	if err := os.WriteFile(python, []byte("#!/bin/sh\necho once >> "+started+"\necho transformers >&2\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	jobs := strings.Repeat(`{"config":{"model_type":"arcee","hidden_size":64},"batch":1,"seq":8}`+"\n", 5)
	code, stdout, stderr := invoke(t, jobs, "predict", "--jobs", "-", "--json", "--python", python)
	if code != exitUnreadable || strings.Count(stderr, "transformers") != 3 || !strings.Contains(stderr, "the models of 5 jobs are not built in") || !strings.Contains(stderr, "pip install torch transformers") {
		t.Errorf("exit code %d, stderr:\n%s", code, stderr)
	}
	if n := strings.Count(stdout, `model_type \"arcee\" is not built in`); n != 5 || strings.Contains(stdout, "albert") {
		t.Errorf("%d of 5 results name their model:\n%s", n, stdout)
	}
	if starts, err := os.ReadFile(started); err != nil || strings.Count(string(starts), "once") != 1 {
		t.Errorf("Python was started %d times, %v", strings.Count(string(starts), "once"), err)
	}
}

// A hundred lines, one of them bad, one huge: results come as lines are read, and only bad lines are missing.
func TestPredictJobsStreams(t *testing.T) {
	t.Parallel()
	const config = `{"model_type":"gpt2","n_layer":1,"n_embd":8,"n_head":1,"vocab_size":16,"n_positions":8}`
	in, lines := io.Pipe()
	out, results := io.Pipe()
	var stderr strings.Builder
	env := Env{Stdin: in, Stdout: results, Stderr: &stderr, Getenv: func(string) string { return "" }}
	exit := make(chan int, 1)
	go func() {
		exit <- Run(context.Background(), env, []string{"predict", "--jobs", "-", "--json"})
		results.Close()
	}()
	read := bufio.NewScanner(out)
	next := func() (r report.Prediction) {
		if !read.Scan() || json.Unmarshal(read.Bytes(), &r) != nil {
			t.Fatalf("no result: %q", read.Text())
		}
		return r
	}
	for i := range 100 { // each answer comes before the next question is asked
		line := fmt.Sprintf(`{"id":"%d","config":%s,"batch":1,"seq":8}`, i, config)
		if i == 50 {
			line = `{"id": nonsense`
		}
		fmt.Fprintln(lines, line)
		switch r := next(); {
		case i == 50:
			if r.ID != "line 51" || !strings.Contains(r.Error, "line 51: job is not a JSON object") {
				t.Errorf("%+v", r)
			}
		case r.ID != fmt.Sprint(i) || r.Error != "":
			t.Fatalf("%d: %+v", i, r)
		}
	}
	lines.Close()
	if code := <-exit; code != exitUnreadable || !strings.Contains(stderr.String(), "1 of 100 jobs") || !strings.Contains(stderr.String(), "line 51") {
		t.Errorf("exit %d: %s", code, stderr.String())
	}
}

func TestPredictJobsStopsWhenNobodyReads(t *testing.T) {
	t.Parallel()
	endless := io.MultiReader(strings.NewReader(strings.Repeat(`{"config":{"model_type":"gpt2","n_layer":1,"n_embd":8,"n_head":1,"vocab_size":16,"n_positions":8},"batch":1,"seq":8}`+"\n", 3000)))
	var stderr strings.Builder
	env := Env{Stdin: endless, Stdout: gone{}, Stderr: &stderr, Getenv: func(string) string { return "" }}
	if code := Run(context.Background(), env, []string{"predict", "--jobs", "-", "--json"}); code != exitFailure || !strings.Contains(stderr.String(), "nobody") {
		t.Errorf("exit %d: %s", code, stderr.String())
	}
}

type gone struct{}

func (gone) Write([]byte) (int, error) { return 0, errors.New("nobody reads") }

func TestPredictRefusesClearly(t *testing.T) {
	t.Parallel()
	mlp := []string{"--graph", graphs + "seed-mlp.json.gz"}
	for name, c := range map[string]struct {
		code int
		want string
		args []string
	}{
		"no model":         {2, "no model", []string{"--batch", "4"}},
		"two models":       {2, "not both", append([]string{"--config", llamaConfig, "--batch", "4"}, mlp...)},
		"no batch":         {2, "--batch", mlp},
		"negative batch":   {2, "negative", append([]string{"--batch", "-4"}, mlp...)},
		"absurd batch":     {2, "too large", append([]string{"--batch", "99999999"}, mlp...)},
		"no loss":          {2, "not a loss", append([]string{"--batch", "4"}, mlp...)},
		"unknown card":     {2, "rtx-4090", append([]string{"--batch", "4", "--gpu", "rtx-4900"}, mlp...)},
		"unknown word":     {2, "did you mean adamw", append([]string{"--batch", "4", "--optimizer", "adamww"}, mlp...)},
		"bad memory":       {2, "--memory", append([]string{"--batch", "4", "--memory", "lots"}, mlp...)},
		"bad sharding":     {2, "fsdp2", []string{"--config", llamaConfig, "--batch", "1", "--seq", "8", "--gpus", "2", "--sharding", "fsdp"}},
		"a graph in parts": {2, "cannot be split", append([]string{"--batch", "4", "--loss", "cross-entropy", "--tensor", "2"}, mlp...)},
		"bad version":      {2, "--torch", append([]string{"--batch", "4", "--torch", "two"}, mlp...)},
		"bad sweep":        {2, "--sweep", append([]string{"--batch", "4", "--sweep", "bitch=1"}, mlp...)},
		"contradiction":    {2, "attention already", append([]string{"--batch", "4", "--attn", "eager"}, mlp...)},
		"missing file":     {4, "read the graph", []string{"--graph", "no-such.pt2", "--batch", "4"}},
		"not a graph":      {4, "not a torch.export graph", []string{"--graph", llamaConfig, "--batch", "4"}},
		"not a config":     {4, "JSON", []string{"--config", graphs + "seed-mlp.json.gz", "--batch", "4"}},
		"wrong input":      {2, "exported for samples", append([]string{"--batch", "4", "--loss", "cross-entropy", "--input", "3,4"}, mlp...)},
		"a sweep of cards": {2, "one job at a time", []string{"--config", llamaConfig, "--seq", "8", "--sweep", "batch=1,2", "--gpus", "2"}},
		"sharding nothing": {2, "the number of cards", []string{"--config", llamaConfig, "--batch", "1", "--seq", "8", "--sharding", "zero3"}},
		"buckets of ZeRO":  {2, "setting of DDP", []string{"--config", llamaConfig, "--batch", "1", "--seq", "8", "--gpus", "2", "--sharding", "zero3", "--bucket-view"}},
		"a world of cards": {2, "any cluster", []string{"--config", llamaConfig, "--batch", "1", "--seq", "8", "--gpus", "99999999"}},
		"timeline as text": {2, "--json", append([]string{"--batch", "4", "--loss", "cross-entropy", "--timeline", "5"}, mlp...)},
		"input of a text":  {2, "for graphs", []string{"--config", llamaConfig, "--batch", "1", "--seq", "8", "--input", "3,4"}},
		"misspelt flag":    {2, "did you mean --batch", []string{"--btach", "4"}},
		"empty folder":     {4, "config.json", []string{"--config", t.TempDir(), "--batch", "1", "--seq", "8"}},
		"unknown argument": {2, "-- python train.py", []string{"train.py"}},
	} {
		code, stdout, stderr := invoke(t, "", append([]string{"predict"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.want) || stdout != "" {
			t.Errorf("%s: exit code %d (want %d), stderr %q (want %q), stdout %q", name, code, c.code, stderr, c.want, stdout)
		}
	}
}

func TestAModelThatIsNotBuiltInSaysWhatToInstall(t *testing.T) {
	t.Parallel()
	job := `{"config":{"model_type":"mamba"},"batch":1,"seq":8}`
	code, _, stderr := invoke(t, job, "predict", "--job", "-")
	if code != 4 || !strings.Contains(stderr, `model_type "mamba" is not built in`) || !strings.Contains(stderr, "pip install torch transformers") {
		t.Errorf("exit code %d, stderr %s", code, stderr)
	}
}

func TestSweepRangesDouble(t *testing.T) {
	t.Parallel()
	axes, err := parseSweep("batch=1..6,seq=512,1024")
	if err != nil || len(axes) != 2 || strings.Join(axes[0].values, " ") != "1 2 4 6" || strings.Join(axes[1].values, " ") != "512 1024" {
		t.Errorf("axes %v, error %v", axes, err)
	}
	for _, bad := range []string{"", "1..4", "batch=", "batch=4..1", "batch=1..x"} {
		if _, err := parseSweep(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestWeightsAreCountedAndCompared(t *testing.T) {
	t.Parallel()
	header := `{"w":{"dtype":"F32","shape":[4013010],"data_offsets":[0,16052040]}}`
	file := filepath.Join(t.TempDir(), "model.safetensors")
	data := append([]byte{byte(len(header)), 0, 0, 0, 0, 0, 0, 0}, header...)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"predict", "--graph", graphs + "seed-mlp.json.gz", "--batch", "4", "--loss", "cross-entropy", "--json", "--weights"}
	if code, stdout, stderr := invoke(t, "", append(args, file)...); code != 0 || !strings.Contains(stdout, "4,013,010 parameters, as the model does") {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
	if code, _, stderr := invoke(t, "", append(args, llamaConfig)...); code != 4 || !strings.Contains(stderr, "not a safetensors file") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

func TestAFolderWithAConfigurationIsAModel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := `{"model_type":"llama","hidden_size":64,"intermediate_size":64,"num_hidden_layers":1,"num_attention_heads":2,"vocab_size":100,
		"architectures":["LlamaModel"],"quantization_config":{"quant_method":"gptq","bits":4},"auto_map":{"AutoConfig":"x.Y"}}`
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := invoke(t, "", "predict", "--config", dir, "--batch", "1", "--seq", "8", "--freeze", "nothing", "--json")
	if code != 0 || stderr != "" {
		t.Fatalf("exit code %d, stderr %s", code, stderr)
	}
	for _, want := range []string{"LlamaModel", "gptq", `freeze \"nothing\"`} {
		if !strings.Contains(stdout, want) {
			t.Errorf("nothing is said about %s: %s", want, stdout)
		}
	}
}

func TestGraphsAsTorchSavesThemAreRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		params int64 // as PyTorch counts them
		args   []string
	}{
		"cnn": {5514, []string{"--channels-last"}},
		"ops": {1056, nil},
		"gru": {12053, []string{"--precision", "amp-bf16"}},
	} {
		args := append([]string{"predict", "--graph", "testdata/pt2/" + name + ".pt2", "--batch", "8", "--loss", "cross-entropy", "--json"}, c.args...)
		code, stdout, stderr := invoke(t, "", args...)
		var r report.Prediction
		if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != 0 {
			t.Fatalf("%s: exit code %d, %v, stderr %s", name, code, err, stderr)
		}
		if r.Params != c.params || len(r.Unknown) > 0 {
			t.Errorf("%s: %d parameters, PyTorch counts %d; unknown operators %v", name, r.Params, c.params, r.Unknown)
		}
	}
}

func TestALossOnALossIsRefused(t *testing.T) {
	t.Parallel()
	code, _, stderr := invoke(t, "", "predict", "--graph", "testdata/pt2/loss.pt2", "--batch", "8", "--loss", "cross-entropy")
	if code != 2 || !strings.Contains(stderr, "leave loss out") {
		t.Errorf("exit code %d, stderr %s", code, stderr)
	}
	if code, _, stderr = invoke(t, "", "predict", "--graph", "testdata/pt2/loss.pt2", "--batch", "8"); code != 0 {
		t.Errorf("without: exit code %d, stderr %s", code, stderr)
	}
}

func TestABrokenArchiveIsNoGraph(t *testing.T) {
	t.Parallel()
	whole, err := os.ReadFile("testdata/pt2/cnn.pt2")
	if err != nil {
		t.Fatal(err)
	}
	for _, keep := range []int{0, 4, 100, len(whole) / 2, len(whole) - 1} {
		name := filepath.Join(t.TempDir(), "cut.pt2")
		if err := os.WriteFile(name, whole[:keep], 0o600); err != nil {
			t.Fatal(err)
		}
		if code, _, stderr := invoke(t, "", "predict", "--graph", name, "--batch", "8"); code != 4 || stderr == "" {
			t.Errorf("%d of %d bytes: exit code %d, stderr %q", keep, len(whole), code, stderr)
		}
	}
}

// A family under another name is built in; a head it does not have here is read from its code, and without a Python the error says so.
func TestAliasesAreBuiltInAndOtherHeadsAreReadFromCode(t *testing.T) {
	t.Parallel()
	config := func(kind, head string) string {
		path := filepath.Join(t.TempDir(), "config.json")
		text := fmt.Sprintf(`{"model_type":%q,"architectures":[%q],"vocab_size":5000,"hidden_size":64,"num_hidden_layers":2,"num_attention_heads":4,"intermediate_size":128,"max_position_embeddings":514,"type_vocab_size":1}`, kind, head)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var peaks []string
	for _, kind := range []string{"roberta", "camembert", "xlm-roberta"} {
		code, out, stderr := invoke(t, "", "predict", "--json", "--config", config(kind, "X"), "--task", "masked-lm", "--batch", "2", "--seq", "64")
		_, peak, _ := strings.Cut(out, `"peak":`)
		peak, _, _ = strings.Cut(peak, "}")
		if code != 0 || peak == "" {
			t.Errorf("%s: code %d, %s", kind, code, stderr)
		}
		peaks = append(peaks, peak)
	}
	if peaks[0] != peaks[1] || peaks[0] != peaks[2] {
		t.Errorf("the same computation has peaks %v", peaks)
	}
	code, _, stderr := invoke(t, "", "predict", "--config", config("camembert", "CamembertForCausalLM"), "--batch", "2", "--seq", "64", "--python", "/nonexistent/python")
	if code == 0 || !strings.Contains(stderr, "/nonexistent/python") {
		t.Errorf("code %d: %s; want the Python that would read it", code, stderr)
	}
}

// What an optimizer holds during its step and what it keeps are two rows: half a screen of "optimizer state" once held a third of temporaries.
func TestTheTemporariesOfAStepAreNotState(t *testing.T) {
	t.Parallel()
	r := plimsoll(t, "", "predict", "../../docs/answers/gpt2.json", "--batch", "1", "--seq", "128", "--optimizer", "adamw", "--memory", "16")
	rows := regexp.MustCompile(`(?m)(optimizer state|optimizer's step) +(\S+ \S+)`).FindAllStringSubmatch(r.stdout, -1)
	// 124.4 million parameters: two moments of 4 bytes each, and one temporary of 4 bytes (foreach).
	if len(rows) != 2 || rows[0][1] != "optimizer state" || rows[0][2] != "949.4 MiB" || rows[1][2] != "474.7 MiB" {
		t.Errorf("%q in\n%s", rows, r.stdout)
	}
}

// A batch of one that does not fit is no contradiction to the longest sequence that does.
func TestALongestSequenceDoesNotContradictTheBatch(t *testing.T) {
	t.Parallel()
	r := plimsoll(t, "", "predict", "../../docs/answers/gpt2.json", "--batch", "1", "--seq", "1024", "--memory", "3.9")
	text := strings.Join(strings.Fields(r.stdout), " ")
	if !regexp.MustCompile(`A batch of 1 does not fit at this sequence length\. Longest sequence at this batch: \d{3}\.`).MatchString(text) {
		t.Errorf("exit %d\n%s", r.code, r.stdout)
	}
}
