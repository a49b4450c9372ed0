package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// actionStep is a step of action.yml.
type actionStep struct {
	Name, ID, If, Shell, Run string
	Env                      map[string]string
}

func actionSteps(t *testing.T) []actionStep {
	t.Helper()
	data, err := os.ReadFile("../../action.yml")
	if err != nil {
		t.Fatal(err)
	}
	var action struct {
		Runs struct {
			Using string
			Steps []actionStep
		}
	}
	if err := yaml.Unmarshal(data, &action); err != nil || action.Runs.Using != "composite" {
		t.Fatalf("action.yml: %v, %q", err, action.Runs.Using)
	}
	return action.Runs.Steps
}

// A runner carries out steps of the action as GitHub's does, in a clone of its own.
type actionRunner struct {
	t              *testing.T
	clone, temp    string
	values         map[string]string // what ${{ … }} stands for
	summary, calls string            // files: the step summary, and what gh was asked to do
}

func newActionRunner(t *testing.T, comment string) *actionRunner {
	t.Helper()
	folder := t.TempDir()
	r := &actionRunner{t: t, clone: filepath.Join(folder, "clone"), temp: filepath.Join(folder, "temp"), summary: filepath.Join(folder, "summary"), calls: filepath.Join(folder, "calls")}
	bin := filepath.Join(folder, "bin")
	for _, dir := range []string{r.clone, r.temp, bin} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	root := repositoryRoot(t)
	r.values = map[string]string{"github.action_path": root, "github.repository": "me/training", "github.event.pull_request.number": "7", "inputs.token": "x"}
	r.write(filepath.Join(bin, "plimsoll"), fmt.Sprintf("#!/bin/sh\nPLIMSOLL_AS_COMMAND=yes exec %s \"$@\"\n", os.Args[0]))
	// gh lists the id of the comment that is there, and keeps what it is given.
	r.write(filepath.Join(bin, "gh"), fmt.Sprintf("#!/bin/sh\necho \"$@\" >> %[1]s\ncase \"$*\" in *--jq*) echo %[2]s;; esac\nfor a; do case \"$a\" in body=@*) cat \"${a#body=@}\" >> %[1]s;; esac; done\n", r.calls, comment))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	return r
}

func (r *actionRunner) write(path, text string) {
	r.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		r.t.Fatal(err)
	}
}

func (r *actionRunner) git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=me", "-c", "user.email=me@example.com"}, args...)...)
	cmd.Dir = r.clone
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// step runs one step by its name and returns what it printed and how it ended.
func (r *actionRunner) step(name string) (string, int) {
	r.t.Helper()
	for _, s := range actionSteps(r.t) {
		if s.Name != name {
			continue
		}
		cmd := exec.Command("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", s.Run)
		cmd.Dir = r.clone
		cmd.Env = append(os.Environ(), "RUNNER_TEMP="+r.temp, "GITHUB_OUTPUT="+filepath.Join(r.temp, "output"), "GITHUB_STEP_SUMMARY="+r.summary)
		for key, value := range s.Env {
			expression := strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(value, "${{"), "}}"))
			cmd.Env = append(cmd.Env, key+"="+r.values[expression])
		}
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	r.t.Fatalf("action.yml has no step %q", name)
	return "", 0
}

func (r *actionRunner) text(path string) string {
	data, _ := os.ReadFile(path)
	return string(data)
}

func TestNoInputOfTheActionIsPartOfAScript(t *testing.T) {
	t.Parallel()
	for _, s := range actionSteps(t) {
		if strings.Contains(s.Run, "${{") || s.Shell != "bash" {
			t.Errorf("step %s: shell %s, run %s", s.Name, s.Shell, s.Run)
		}
	}
}

func TestTheActionAnnotatesAndCommentsWhatAPullRequestAdds(t *testing.T) {
	r := newActionRunner(t, "")
	config, err := os.ReadFile("../../docs/answers/gpt2.json")
	if err != nil {
		t.Fatal(err)
	}
	job := func(batch int) string {
		return fmt.Sprintf(`{"source":"hf","config_file":"gpt2.json","batch":%d,"seq":512,"optimizer":"adamw"}`, batch)
	}
	r.git("init", "--quiet")
	r.write(filepath.Join(r.clone, "gpt2.json"), string(config))
	r.write(filepath.Join(r.clone, "job.json"), job(2))
	r.write(filepath.Join(r.clone, "train.py"), "import torch\nlosses = []\nfor batch in loader:\n    loss = model(batch)\n    loss.backward()\n    losses.append(loss)\n")
	r.git("add", ".")
	r.git("commit", "--quiet", "-m", "base")
	r.values["github.event.pull_request.base.sha"] = r.git("rev-parse", "HEAD")
	r.write(filepath.Join(r.clone, "job.json"), job(16))

	r.values["inputs.lint"], r.values["inputs.fail-on"] = ".", "never"
	if out, code := r.step("Lint"); code != 0 || !strings.Contains(out, "file=train.py,line=6") {
		t.Errorf("lint: code %d, %s", code, out)
	}
	r.values["inputs.job"], r.values["inputs.memory"], r.values["inputs.gpu"] = "--job job.json", "12GiB", "t4"
	if out, code := r.step("Predict"); code != 0 || !strings.Contains(r.text(filepath.Join(r.temp, "output")), "fits=false") {
		t.Fatalf("predict: code %d, %s", code, out)
	}
	summary := r.text(r.summary)
	for _, want := range []string{"### GPU memory", "**The predicted peak grows by ", "no longer fits in 12.00 GiB", "| activations | ", " | +"} {
		if !strings.Contains(summary, want) {
			t.Errorf("the summary lacks %q:\n%s", want, summary)
		}
	}
	if out, code := r.step("Comment"); code != 0 {
		t.Errorf("comment: code %d, %s", code, out)
	}
	if calls := r.text(r.calls); !strings.Contains(calls, "repos/me/training/issues/7/comments -F body=@") || !strings.Contains(calls, "<!-- plimsoll -->\n### GPU memory") {
		t.Errorf("gh was asked %s", calls)
	}
	if _, code := r.step("Check the budget"); code != 1 {
		t.Errorf("the check ended with %d", code)
	}
	if left := r.git("worktree", "list"); strings.Count(left, "\n") != 0 {
		t.Errorf("worktrees are left: %s", left)
	}
}

func TestTheActionUpdatesItsCommentAndManagesWithoutABase(t *testing.T) {
	r := newActionRunner(t, "4711")
	config, err := os.ReadFile("../../docs/answers/gpt2.json")
	if err != nil {
		t.Fatal(err)
	}
	r.git("init", "--quiet")
	r.git("commit", "--quiet", "--allow-empty", "-m", "base without a job")
	r.values["github.event.pull_request.base.sha"] = r.git("rev-parse", "HEAD")
	r.write(filepath.Join(r.clone, "gpt2.json"), string(config))
	r.values["inputs.job"] = "--config gpt2.json --batch 2 --seq 512"
	r.values["inputs.gpu"] = "t4"
	out, code := r.step("Predict")
	if code != 0 || !strings.Contains(out, "nothing to compare with") || !strings.Contains(r.text(r.summary), "stays at") {
		t.Errorf("predict: code %d, %s\n%s", code, out, r.text(r.summary))
	}
	if _, code := r.step("Comment"); code != 0 || !strings.Contains(r.text(r.calls), "--method PATCH repos/me/training/issues/comments/4711") {
		t.Errorf("comment: code %d, %s", code, r.text(r.calls))
	}
	r.values["inputs.job"] = "--config missing.json --batch 2"
	if out, code := r.step("Predict"); code != 1 || !strings.Contains(out, "::error title=Memory budget::plimsoll predict --config missing.json --batch 2 failed with exit code 4") {
		t.Errorf("a job that is not there: code %d, %s", code, out)
	}
}
