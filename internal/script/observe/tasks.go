package observe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/plimsoll/plimsoll/internal/evidence/oomtext"
	"github.com/plimsoll/plimsoll/internal/script/runner"
)

// Tasks are the processes of one job step that run the same command, each under a plimsoll of its own, as srun starts them. They share a folder; the first task
// waits for the others and speaks for all.
type Tasks struct {
	Step   string // what they have in common, a name for files
	Number int    // which of them this is
	Count  int
}

// SlurmTasks reads the variables that srun sets in every task of a step (slurm.schedmd.com/srun.html#SECTION_OUTPUT-ENVIRONMENT-VARIABLES); a batch script has no
// SLURM_STEP_NUM_TASKS.
func SlurmTasks(variable func(string) string) (Tasks, bool) {
	count, err := strconv.Atoi(variable("SLURM_STEP_NUM_TASKS"))
	number, wrong := strconv.Atoi(variable("SLURM_PROCID"))
	job, badJob := strconv.Atoi(variable("SLURM_JOB_ID"))
	step, badStep := strconv.Atoi(variable("SLURM_STEP_ID"))
	if err != nil || wrong != nil || badJob != nil || badStep != nil || count < 2 || number < 0 || number >= count {
		return Tasks{}, false
	}
	return Tasks{Step: fmt.Sprintf("slurm-%d.%d", job, step), Number: number, Count: count}, true
}

// Leads tells whether this task speaks for all.
func (t Tasks) Leads() bool { return t.Count < 2 || t.Number == 0 }

// done is what a task leaves in the shared folder when its command has ended.
type done struct {
	Run     string `json:"run"`
	Code    int    `json:"code"`
	Host    string `json:"host"`
	Printed string `json:"printed,omitempty"` // file with a memory error it wrote to stderr
}

func (r *Run) doneFile(task int) string {
	return filepath.Join(r.report, fmt.Sprintf("%s-task%d.done", r.Tasks.Step, task))
}

// HandIn leaves the outcome of this task for the one that speaks for all.
func (r *Run) HandIn(outcome runner.Outcome) error {
	host, _ := os.Hostname()
	d := done{Run: r.name(), Code: outcome.Code, Host: host}
	if log, err := oomtext.Read(bytes.NewReader(r.printed)); err == nil && len(log.Messages) > 0 {
		d.Printed = fmt.Sprintf("%s-task%d.txt", r.Tasks.Step, r.Tasks.Number)
		if err := os.WriteFile(filepath.Join(r.report, d.Printed), r.printed, 0o644); err != nil {
			d.Printed = ""
		}
	}
	data, err := json.Marshal(d)
	if err != nil {
		return err
	}
	part := r.doneFile(r.Tasks.Number) + ".part"
	if err := os.WriteFile(part, data, 0o644); err != nil {
		return err
	}
	return os.Rename(part, r.doneFile(r.Tasks.Number))
}

// Await waits until every other task has handed in its outcome, at most so long, and takes what they say into account. It returns how many are missing.
func (r *Run) Await(most time.Duration) (missing int) {
	const look = 50 * time.Millisecond
	for waited := time.Duration(0); ; waited += look {
		all := r.handedIn()
		missing = r.Tasks.Count - 1 - len(all)
		if missing > 0 && waited < most {
			time.Sleep(look)
			continue
		}
		for _, d := range all {
			if r.failed == 0 {
				r.failed = d.Code
			}
			if d.Printed != "" && filepath.Base(d.Printed) == d.Printed {
				text, _ := os.ReadFile(filepath.Join(r.report, d.Printed))
				r.printed = append(r.printed, text...)
			}
		}
		return missing
	}
}

func (r *Run) handedIn() []done {
	var all []done
	for task := 1; task < r.Tasks.Count; task++ {
		var d done
		if data, err := os.ReadFile(r.doneFile(task)); err == nil && json.Unmarshal(data, &d) == nil && d.Run == r.name() {
			all = append(all, d)
		}
	}
	return all
}
