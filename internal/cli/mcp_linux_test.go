package cli

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// agent is a coding agent that has started plimsoll mcp as a process of its own.
type agent struct {
	t       *testing.T
	session *mcp.ClientSession
	server  *exec.Cmd
}

func (a agent) pid() int { return a.server.Process.Pid }

// newAgent starts the server with flags; roots are what the client names, nil for a client that cannot name any.
func newAgent(t *testing.T, roots []string, flags ...string) agent {
	t.Helper()
	options := &mcp.ClientOptions{}
	if roots == nil {
		options.Capabilities = &mcp.ClientCapabilities{}
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, options)
	for _, r := range roots {
		//lint:ignore SA1019 what clients of today do
		client.AddRoots(&mcp.Root{URI: "file://" + r})
	}
	command := exec.Command(os.Args[0], append([]string{"mcp"}, flags...)...)
	command.Env = append(os.Environ(), "PLIMSOLL_AS_COMMAND=yes", "HF_HOME="+t.TempDir())
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	session, err := client.Connect(ctx, &mcp.CommandTransport{Command: command}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return agent{t, session, command}
}

// call asks a tool; text is what an error says, or the answer as JSON.
func (a agent) call(tool string, args map[string]any) (answer map[string]any, text string) {
	a.t.Helper()
	res, err := a.session.CallTool(context.Background(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		a.t.Fatalf("%s %v: %v", tool, args, err)
	}
	text = res.Content[0].(*mcp.TextContent).Text
	if res.IsError {
		return nil, text
	}
	data, _ := json.Marshal(res.StructuredContent)
	if err := json.Unmarshal(data, &answer); err != nil {
		a.t.Fatalf("%s: %v in %s", tool, err, data)
	}
	return answer, text
}

func repositoryRoot(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func TestACodingAgentFindsSixReadOnlyTools(t *testing.T) {
	t.Parallel()
	a := newAgent(t, []string{repositoryRoot(t)})
	list, err := a.session.ListTools(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
		if tool.Annotations == nil || !tool.Annotations.ReadOnlyHint || *tool.Annotations.OpenWorldHint {
			t.Errorf("%s does not say that it only reads: %+v", tool.Name, tool.Annotations)
		}
		if tool.OutputSchema == nil || tool.Description == "" {
			t.Errorf("%s lacks a schema of its answer or a description", tool.Name)
		}
	}
	slices.Sort(names)
	if got := strings.Join(names, " "); got != "doctor explain fit lint predict replay" {
		t.Errorf("tools: %s", got)
	}
}

func TestACodingAgentGetsShortAnswers(t *testing.T) {
	t.Parallel()
	a := newAgent(t, []string{repositoryRoot(t)})
	snapshot := filepath.Join(repositoryRoot(t), "testdata", "snapshots", "oom-batch.pickle.gz")
	config := "docs/answers/gpt2.json" // from the root
	for _, c := range []struct {
		tool, field string
		args        map[string]any
		want        string
	}{
		{"explain", "findings", map[string]any{"paths": []string{snapshot}}, "activations-dominate"},
		{"explain", "findings", map[string]any{"text": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.65 GiB of which 1.00 GiB is free."}, "severity"},
		{"replay", "settings", map[string]any{"path": snapshot, "capacity": "20GiB"}, "expandable_segments:True"},
		{"predict", "peak", map[string]any{"config": config, "batch": 4, "seq": 512, "gpu": "t4"}, "reserved"},
		{"predict", "fits", map[string]any{"config": config, "batch": 512, "seq": 1024, "gpu": "t4"}, "false"},
		{"fit", "plans", map[string]any{"config": config, "seq": 512, "effective_batch": 8, "gpu": "t4"}, "micro_batch"},
		{"lint", "findings", map[string]any{"paths": []string{"testdata/programs"}, "tests": true}, ""},
		{"doctor", "findings", nil, ""},
	} {
		answer, text := a.call(c.tool, c.args)
		part, _ := json.Marshal(answer[c.field])
		if answer == nil || !strings.Contains(string(part), c.want) {
			t.Errorf("%s %v: %s is %s, in %.300s", c.tool, c.args, c.field, part, text)
		}
		if len(text) > 20_000 {
			t.Errorf("%s: the answer has %d bytes", c.tool, len(text))
		}
	}
}

func TestACodingAgentReadsOnlyUnderItsRoots(t *testing.T) {
	t.Parallel()
	root, outside := t.TempDir(), t.TempDir()
	write := func(path, text string) string {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	message := "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
	inside := write(filepath.Join(root, "train.log"), message)
	secret := write(filepath.Join(outside, "secret.log"), message)
	link, pipe := filepath.Join(root, "link.log"), filepath.Join(root, "pipe")
	if err := os.Symlink(secret, link); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	a := newAgent(t, []string{root})
	if answer, text := a.call("explain", map[string]any{"paths": []string{inside}}); answer == nil {
		t.Errorf("a file under the root: %s", text)
	}
	for _, c := range []struct {
		tool string
		args map[string]any
		want string
	}{
		{"explain", map[string]any{"paths": []string{secret}}, "is not under"},
		{"explain", map[string]any{"paths": []string{filepath.Join(outside, "nothing.log")}}, "is not under"},
		{"explain", map[string]any{"paths": []string{"../" + filepath.Base(outside) + "/secret.log"}}, "is not under"},
		{"explain", map[string]any{"paths": []string{link}}, "is not under"},
		{"explain", map[string]any{"paths": []string{pipe}}, "is not a file"},
		{"explain", map[string]any{"paths": []string{"none.log"}}, "no such file"},
		{"explain", map[string]any{}, "give paths"},
		{"lint", map[string]any{"paths": []string{outside}}, "is not under"},
		{"replay", map[string]any{"path": secret}, "is not under"},
		{"predict", map[string]any{"config": secret, "batch": 1}, "is not under"},
		{"predict", map[string]any{"graph": secret, "batch": 1}, "is not under"},
		{"predict", map[string]any{"model": "--job=" + secret}, "is not a name"},
		{"predict", map[string]any{"model": secret}, "is not a name"},
		{"predict", map[string]any{"model": "gpt2", "gpu": "--"}, ""},
		{"predict", map[string]any{"config_json": map[string]any{"model_type": "nothing-we-know"}, "batch": 1, "seq": 8}, "Python"},
		{"fit", map[string]any{"model": "a", "config": "b"}, "one of"},
	} {
		if answer, text := a.call(c.tool, c.args); answer != nil || !strings.Contains(text, c.want) {
			t.Errorf("%s %v: %s, want an error with %q", c.tool, c.args, text, c.want)
		}
	}
}

func TestLintReadsNothingAboveTheRoots(t *testing.T) {
	t.Parallel()
	above := t.TempDir()
	root := filepath.Join(above, "project")
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(above, "pyproject.toml"), "[tool.plimsoll.lint]\nsecret-token = 1\n")
	write(filepath.Join(above, "steps.py"), "def step(model, x):\n    return model(x)\n")
	write(filepath.Join(root, "train.py"), "import torch\nfrom steps import step\nlosses = []\nfor x in loader:\n    loss = model(x).sum()\n    losses.append(loss)\n")
	answer, text := newAgent(t, []string{root}).call("lint", map[string]any{"paths": []string{root}})
	if answer == nil || strings.Contains(text, "secret-token") {
		t.Errorf("a pyproject.toml above the root is read: %s", text)
	}
	if code, _, stderr := invoke(t, "", "lint", root); code != exitUnreadable || !strings.Contains(stderr, "secret-token") {
		t.Errorf("without a fence the same file is read: exit %d, %s", code, stderr)
	}
}

func TestTheServersOwnRootsHoldWhateverTheClientNames(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	log := filepath.Join(root, "train.log")
	if err := os.WriteFile(log, []byte("CUDA out of memory. Tried to allocate 2.00 GiB"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		client []string
		flags  []string
		want   string // of an error; empty: an answer
	}{
		{"neither names a root", nil, nil, "start the server with plimsoll mcp --root"},
		{"the client has none open", []string{}, nil, "names no roots"},
		{"the server's", nil, []string{"--root", root}, ""},
		{"the client's is elsewhere", []string{t.TempDir()}, []string{"--root", root}, "is not under"},
		{"the server's is elsewhere", []string{root}, []string{"--root", t.TempDir()}, "is not under"},
	} {
		a := newAgent(t, c.client, c.flags...)
		answer, text := a.call("explain", map[string]any{"paths": []string{log}})
		if (answer == nil) != (c.want != "") || !strings.Contains(text, c.want) {
			t.Errorf("%s: %s, want %q", c.name, text, c.want)
		}
	}
}
