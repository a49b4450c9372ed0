package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// withPlimsoll is an environment in which the command plimsoll is this test binary.
func withPlimsoll(t *testing.T) []string {
	t.Helper()
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "plimsoll"), fmt.Appendf(nil, "#!/bin/sh\nPLIMSOLL_AS_COMMAND=yes exec %s \"$@\"\n", os.Args[0]), 0o700); err != nil {
		t.Fatal(err)
	}
	return append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "PLIMSOLL="+filepath.Join(bin, "plimsoll"), "PYTHONDONTWRITEBYTECODE=1")
}

func TestTheAdmissionExampleRefusesWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3")
	}
	config, err := os.ReadFile("../../docs/answers/gpt2.json")
	if err != nil {
		t.Fatal(err)
	}
	job := func(batch int) string {
		return fmt.Sprintf(`{"source":"hf","config":%s,"batch":%d,"seq":1024,"optimizer":"adamw"}`, config, batch)
	}
	for _, c := range []struct {
		name, job, want string
		allowed         bool
	}{
		{"a job that fits", job(1), "", true},
		{"one that does not", job(512), "GiB", false},
		{"one without a description", "", "", true},
		{"one that names a file", `{"source":"hf","config_file":"/etc/passwd","batch":1}`, "not name a file", true},
		{"one that is not JSON", "{", "could not be predicted", true},
		{"one that is no job", `{"batch":-1}`, "no model", true},
	} {
		annotations := map[string]string{"plimsoll.dev/gpu": "t4"}
		if c.job != "" {
			annotations["plimsoll.dev/job"] = c.job
		}
		request, _ := json.Marshal(map[string]any{"request": map[string]any{"uid": "u1", "object": map[string]any{"metadata": map[string]any{"annotations": annotations}}}})
		cmd := exec.Command(python, "-c", "import json, sys, admission; print(json.dumps(admission.review(json.load(sys.stdin))))")
		cmd.Dir, cmd.Env, cmd.Stdin = "../../deploy/kubernetes", withPlimsoll(t), strings.NewReader(string(request))
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var review struct {
			Response struct {
				UID      string
				Allowed  bool
				Status   struct{ Message string }
				Warnings []string
			}
		}
		if err := json.Unmarshal(out, &review); err != nil {
			t.Fatal(err)
		}
		said := review.Response.Status.Message + strings.Join(review.Response.Warnings, "\n")
		if review.Response.UID != "u1" || review.Response.Allowed != c.allowed || !strings.Contains(said, c.want) || (said == "") != (c.want == "") {
			t.Errorf("%s: %+v", c.name, review.Response)
		}
	}
}

func TestTheJobExampleRunsCommandsThatExist(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../deploy/kubernetes/job.yaml")
	if err != nil {
		t.Fatal(err)
	}
	type container struct{ Command []string }
	var job struct {
		Spec struct {
			Template struct {
				Spec struct {
					InitContainers []container `yaml:"initContainers"`
					Containers     []container
				}
			}
		}
	}
	if err := yaml.Unmarshal(data, &job); err != nil {
		t.Fatal(err)
	}
	pod := job.Spec.Template.Spec
	for _, c := range append(pod.InitContainers, pod.Containers...) {
		verb, rest, err := newRootCommand(Env{}).Find(c.Command[1:])
		if err != nil || c.Command[0] != "plimsoll" {
			t.Errorf("%v: %v", c.Command, err)
			continue
		}
		if err := verb.ParseFlags(rest); err != nil {
			t.Errorf("%v: %v", c.Command, err)
		}
	}
}

func TestSlurmsPrologAndEpilogDoNotFailOnAHealthyNode(t *testing.T) {
	t.Parallel()
	logs := t.TempDir()
	for _, script := range []string{"prolog.sh", "epilog.sh"} {
		cmd := exec.Command("bash", "../../deploy/slurm/"+script)
		cmd.Env = append(withPlimsoll(t), "SLURM_JOB_ID=77", "PLIMSOLL_EPILOG_DIR="+logs)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", script, err, out)
		}
	}
	if files, _ := filepath.Glob(filepath.Join(logs, "job-77-*.json")); len(files) != 1 {
		t.Errorf("the epilog left %v", files)
	}
}
