package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// outOfMemory is written to the format of PyTorch 2.2 and later.
const outOfMemory = `torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.65 GiB of which 1.06 GiB is free. ` +
	`Process 1234 has 22.58 GiB memory in use. Of the allocated memory 21.90 GiB is allocated by PyTorch, and 212.00 MiB is reserved by PyTorch but unallocated.`

// TestWhatNewUsersTypeIsUnderstood holds what people typed at their first try and what they should have got.
func TestWhatNewUsersTypeIsUnderstood(t *testing.T) {
	t.Parallel()
	tiny := tinyModel(t)
	model := []string{"predict", tiny, "--batch", "1", "--seq", "128"}
	with := func(more ...string) []string { return append(append([]string(nil), model...), more...) }
	for name, c := range map[string]struct {
		stdin string
		args  []string
		code  int
		want  string // in stdout or stderr
		lacks string
	}{
		"a path as the model":             {args: model, want: "361.1 k parameters"},
		"a model id, not in the cache":    {args: []string{"predict", "no-such-org/no-such-model", "--batch", "1"}, code: 4, want: "hf download no-such-org/no-such-model --include"},
		"a model id as a flag":            {args: []string{"predict", "--model", tiny, "--batch", "1", "--seq", "128"}, want: "361.1 k parameters"},
		"a bare number of GiB":            {args: with("--memory", "24"), want: "24.0 GiB available"},
		"a number that could be anything": {args: with("--memory", "24576"), code: 2, want: "24576MiB"},
		"H20":                             {args: with("--gpu", "H20"), want: "H20 96 GB"},
		"A800":                            {args: with("--gpu", "A800"), want: "A800"},
		"BF16":                            {args: with("--precision", "BF16"), want: "· bf16 ·"},
		"bfloat16":                        {args: with("--precision", "bfloat16"), want: "· bf16 ·"},
		"torch.bfloat16":                  {args: with("--dtype", "torch.bfloat16"), want: "· bf16 ·"},
		"bf16-mixed":                      {args: with("--precision", "bf16-mixed"), want: "· amp-bf16 ·"},
		"flash_attention_2":               {args: with("--attn", "flash_attention_2", "--precision", "bf16"), want: "flash_attention_2", lacks: "counted as"},
		"flash_attention_2 in fp32":       {args: with("--attn", "flash_attention_2"), code: 2, want: "flash_attention_2 computes in bf16 and fp16 only, and this job is in fp32: set --precision bf16"},
		"flash_attention_2 on a T4":       {args: with("--attn", "flash_attention_2", "--precision", "fp16", "--gpu", "t4"), code: 2, want: "needs a card of compute capability 8.0"},
		"flash_attention_3":               {args: with("--attn", "flash_attention_3", "--precision", "bf16"), want: "flash_attention_3 is counted as flash_attention_2"},
		"AdamW":                           {args: with("--optimizer", "AdamW"), want: "· adamw ·"},
		"adamw_torch_fused":               {args: with("--optim", "adamw_torch_fused"), want: "· adamw-fused ·"},
		"--batch-size, --seq-len":         {args: []string{"predict", tiny, "--batch-size", "1", "--seq-len", "128"}, want: "batch 1 × 128"},
		"--seq_len":                       {args: []string{"predict", tiny, "--batch_size", "1", "--seq_len", "128"}, want: "batch 1 × 128"},
		"--checkpointing full":            {args: with("--checkpointing", "full"), want: "361.1 k parameters"},
		"--confg":                         {args: []string{"predict", "--confg", "x"}, code: 2, want: "did you mean --conf or --config?"},
		"-batch":                          {args: []string{"predict", "-batch", "4"}, code: 2, want: "did you mean --batch?"},
		"--seq x":                         {args: []string{"predict", tiny, "--seq", "x"}, code: 2, want: "--seq x: not a whole number", lacks: "strconv"},
		"--lora-dropout x":                {args: with("--lora-dropout", "x"), code: 2, want: "not a number", lacks: "strconv"},
		"--follow x":                      {args: with("--follow", "x"), code: 2, want: "90s", lacks: "invalid duration"},
		"--gpu without a value":           {args: with("--gpu"), code: 2, want: "--gpu needs a value"},
		"no batch":                        {args: []string{"predict", tiny, "--seq", "128"}, code: 2, want: "--batch 8"},
		"no seq":                          {args: []string{"predict", tiny, "--batch", "1"}, code: 2, want: "--seq 2048"},
		"no model":                        {args: []string{"predict"}, code: 2, want: "plimsoll predict config.json --batch 1"},
		"a script without --":             {args: []string{"predict", "train.py", "--batch", "2"}, code: 2, want: "plimsoll predict -- python train.py"},
		"a snapshot given to predict":     {args: []string{"predict", recordings + "oom-batch.pickle.gz"}, code: 2, want: "plimsoll explain " + recordings + "oom-batch.pickle.gz"},
		"run python -c":                   {args: []string{"run", "python", "-c", "print(1)"}, code: 2, want: "plimsoll run -- python train.py"},
		"run alone":                       {args: []string{"run"}, code: 2, want: "plimsoll run -- python train.py"},
		"diff of one":                     {args: []string{"diff", "a"}, code: 2, want: "plimsoll diff before.pickle after.pickle"},
		"piped without -":                 {stdin: outOfMemory, args: []string{"explain"}, code: 3, want: "2.00 GiB"},
		"a message in quotes":             {args: []string{"explain", outOfMemory}, code: 3, want: "2.00 GiB"},
		"nothing piped":                   {args: []string{"explain"}, code: 2, want: "python train.py 2>&1 | plimsoll explain"},
		"a job piped in":                  {stdin: `{"config_file": "` + tiny + `", "batch": 1, "seq": 128, "attn": "flash_attention_2", "param_dtype": "BFloat16"}`, args: []string{"predict"}, want: "361.1 k parameters"},
		"a file that is something else":   {args: []string{"explain", "../../go.mod"}, code: 4, want: "explain reads:"},
		"no such file":                    {args: []string{"explain", "nowhere.pickle"}, code: 4, want: "nowhere.pickle: no such file", lacks: "stat "},
		"almost the file":                 {args: []string{"explain", recordings + "oom-batch.pickle"}, code: 4, want: "did you mean " + recordings + "oom-batch.pickle.gz?"},
		"one bad file of two":             {args: []string{"explain", recordings + "oom-batch.pickle.gz", "../../testdata/none.pickle"}, code: 4, want: "activations dominate"},
		"a file without a verb":           {args: []string{recordings + "oom-batch.pickle.gz"}, code: 2, want: "plimsoll explain " + recordings},
		"plimsoll alone":                  {want: "plimsoll run -- python train.py"},
		"a wrong type in a job":           {stdin: `{"config_file": "x.json", "batch": "four"}`, args: []string{"predict"}, code: 4, want: "batch is text and should be a whole number", lacks: "Go "},
		"bf16 on a T4":                    {args: with("--gpu", "t4", "--precision", "amp-bf16"), want: "T4 has no bf16"},
		"LoRA in GPT-2's Conv1D":          {args: []string{"predict", "../../docs/answers/gpt2.json", "--batch", "1", "--seq", "128", "--lora-rank", "8", "--lora-targets", "c_attn"}, want: "LoRA 8"},
		"a job that is not JSON":          {stdin: `batch=4`, args: []string{"predict"}, code: 4, want: "is not a JSON object: byte 1"},
	} {
		r := plimsoll(t, c.stdin, c.args...)
		text := r.stdout + r.stderr
		plain := strings.Join(strings.Fields(text), " ")
		if r.code != c.code || !strings.Contains(plain, c.want) || c.lacks != "" && strings.Contains(text, c.lacks) {
			t.Errorf("%s: plimsoll %s: exit %d (want %d), want %q without %q in\n%s", name, strings.Join(c.args, " "), r.code, c.code, c.want, c.lacks, text)
		}
	}
}

// Watching for a while ends as an answer, not as an error about time.
func TestWatchingForAWhileEndsCleanly(t *testing.T) {
	t.Parallel()
	r := plimsoll(t, "", "watch", "--demo", "--for", "200ms")
	if r.code != exitOK || !strings.Contains(r.stdout, "GPU 0") || strings.Contains(r.stdout+r.stderr, "deadline") {
		t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}

// Two runs of one program under other allocator settings use the same bytes and hold others: a comparison says both.
func TestADiffOfAllocatorSettingsSaysWhatIsHeld(t *testing.T) {
	t.Parallel()
	r := plimsoll(t, "", "diff", recordings+"alloc-varlen-default.pickle.gz", recordings+"alloc-varlen-expandable.pickle.gz")
	held := ""
	for line := range strings.Lines(r.stdout) {
		if strings.Contains(line, "peak reserved by PyTorch") {
			held = line
		}
	}
	if !strings.Contains(held, "23.5") || !strings.Contains(held, "-1") {
		t.Errorf("exit %d, %q in\n%s", r.code, held, r.stdout)
	}
}

// TestNextStepsWorkAsPrinted takes the command at the end of an answer and runs it.
func TestNextStepsWorkAsPrinted(t *testing.T) {
	t.Parallel()
	tiny := tinyModel(t)
	for _, c := range []struct {
		args []string
		want string // in the command
	}{
		{[]string{"predict", tiny, "--batch", "64", "--seq", "2048", "--memory", "2"}, "plimsoll fit " + tiny},
		{[]string{"predict", "--config", tiny, "--batch_size", "64", "--seq", "2048", "--memory", "2", "--optimizer", "sgdm", "--checkpointing"}, "plimsoll fit --batch 64"},
		{[]string{"fit", tiny, "--gpu", "4090"}, "--write trainer"},
		{[]string{"fit", "--config", tiny, "--seq", "1024", "--effective-batch", "16", "--precision", "bf16", "--memory", "4"}, "--write trainer"},
		{[]string{"fit", "--config", tiny, "--seq", "1024", "--effective-batch", "16", "--gpus", "2", "--memory", "4"}, "--write"},
		{[]string{"explain", recordings + "alloc-varlen-default-capped.pickle.gz"}, "plimsoll replay"},
		{[]string{"explain", recordings + "oom-batch.pickle.gz"}, "plimsoll view"},
	} {
		answer := plimsoll(t, "", c.args...).stdout
		_, after, found := strings.Cut(answer, "\nNext: ")
		_, command, _ := strings.Cut(strings.ReplaceAll(after, "\\\n", " "), "\n")
		if !found || !strings.Contains(strings.Join(strings.Fields(command), " "), c.want) || strings.Count(answer, "Next: ") != 1 {
			t.Errorf("plimsoll %v ends with %q, want %s in it", c.args, command, c.want)
			continue
		}
		next := strings.Fields(command)[1:]
		if next[0] == "view" { // it would wait for a browser
			next = append(next, "--html", filepath.Join(t.TempDir(), "page.html"))
		}
		if r := plimsoll(t, "", next...); r.code != exitOK && !(next[0] == "replay" && r.code == exitFinding) {
			t.Errorf("plimsoll %v, as printed: exit %d\n%s", next, r.code, r.stderr)
		}
	}
}

// TestAModelIsFoundByItsName answers from a local Hugging Face cache, as huggingface_hub lays it out.
func TestAModelIsFoundByItsName(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	dir := filepath.Join(home, "hub", "models--acme--small-llama", "snapshots", "0123456789abcdef")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(tinyModel(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), b, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"predict", "acme/small-llama", "--batch-size", "2", "--seq-len", "128", "--gpu", "4090"},
		{"predict", "--model", "acme/small-llama", "--batch", "2", "--seq", "128", "--gpu", "4090"},
		{"fit", "acme/small-llama", "--gpu", "4090"},
	} {
		var out, talk bytes.Buffer
		env := Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &talk, Getenv: func(string) string { return "" },
			Environ: func() []string { return []string{"HF_HOME=" + home} }}
		if code := Run(context.Background(), env, args); code != exitOK || !strings.Contains(out.String(), "acme/small-llama") {
			t.Errorf("plimsoll %v: exit %d\n%s%s", args, code, out.String(), talk.String())
		}
	}
}

// TestTheReadmeIsShortAndEndsWithAWorkingCommand: three minutes of reading are some 800 words, tables and sessions included.
func TestTheReadmeIsShortAndEndsWithAWorkingCommand(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(strings.Fields(string(b))); n > 850 {
		t.Errorf("the README has %d words", n)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	command, found := strings.CutPrefix(lines[len(lines)-2], "go run ./cmd/plimsoll ")
	if !found || lines[len(lines)-1] != "```" {
		t.Fatalf("the README ends with %q", lines[len(lines)-2])
	}
	t.Chdir(filepath.Join("..", ".."))
	if r := plimsoll(t, "", strings.Fields(command)...); r.code != exitFinding || !strings.Contains(r.stdout, "What to do") {
		t.Errorf("plimsoll %s: exit %d\n%s%s", command, r.code, r.stdout, r.stderr)
	}
}

// tinyModel writes the configuration of a model that is predicted in no time, and names its file.
func tinyModel(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.json")
	text := `{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2,
 "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 512, "max_position_embeddings": 2048, "rms_norm_eps": 1e-05, "tie_word_embeddings": true}`
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTheShellCompletesValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"predict", "--gpu", "rtx-40"}, "rtx-4090"}, {[]string{"fit", "--precision", "amp"}, "amp-bf16"}, {[]string{"fit", "--precision", "fp32,a"}, "fp32,amp-bf16"},
		{[]string{"predict", "--optimizer", "adam"}, "adamw-fused"}, {[]string{"fit", "--write", "t"}, "trainer"}, {[]string{"lint", "--explain", "LM01"}, "LM010"},
		{[]string{"fit", "--checkpointing", ""}, "selective"}, {[]string{"run", "--record", ""}, "stacks"}, {[]string{"replay", "--conf", "exp"}, "expandable_segments:True"},
	} {
		r := plimsoll(t, "", append([]string{"__complete"}, c.args...)...)
		if !strings.Contains(r.stdout, c.want) {
			t.Errorf("completing %v lacks %s:\n%s", c.args, c.want, r.stdout)
		}
	}
}
