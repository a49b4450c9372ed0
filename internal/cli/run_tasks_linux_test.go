package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// notesScript writes the notes that the probe would write in a task, with a peak of so many GiB, and ends as the probe's process would.
const notesScript = `cat > "$PLIMSOLL_REPORT/rank$SLURM_PROCID-$$.json" <<END
{"schema":"plimsoll.notes/1","run":"$PLIMSOLL_RUN","pid":$$,"rank":$SLURM_PROCID,"world_size":4,"torch":"2.11.0","argv":["python","train.py"],"ended":true,
 "device":0,"cards":[{"index":0,"name":"H100","capacity":85899345920}],"outside":1073741824,"step":100,"phase":"forward",
 "peak":{"allocated":$PEAK,"reserved":$PEAK,"step":50,"phase":"backward"},"history":[],"host":{"name":"node$SLURM_PROCID"},"error":$ERROR}
END
exit $CODE`

// srun starts plimsoll run once for each task, as srun does, and gives what each said.
func srun(t *testing.T, folder string, task func(n int) []string) []ran {
	t.Helper()
	all := make([]ran, 4)
	var wait sync.WaitGroup
	for n := range all {
		wait.Go(func() {
			cmd := exec.Command(os.Args[0], "run", "--gather", "20s", "--", "sh", "-c", notesScript)
			cmd.Dir = folder
			cmd.Env = append(os.Environ(), "PLIMSOLL_AS_COMMAND=yes", "SLURM_JOB_ID=77", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=4", fmt.Sprintf("SLURM_PROCID=%d", n))
			cmd.Env = append(cmd.Env, task(n)...)
			var stderr strings.Builder
			cmd.Stderr = &stderr
			_ = cmd.Run()
			all[n] = ran{cmd.ProcessState.ExitCode(), "", stderr.String()}
		})
	}
	wait.Wait()
	return all
}

func TestTasksOfSlurmGiveOneAnswerThatNamesTheOutlier(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	all := srun(t, folder, func(n int) []string {
		peak := int64(20) << 30
		if n == 2 {
			peak = 60 << 30
		}
		return []string{fmt.Sprintf("PEAK=%d", peak), "ERROR=null", "CODE=0"}
	})
	for n, r := range all {
		if r.code != 0 || (n > 0 && r.stderr != "") {
			t.Errorf("task %d: code %d, said %q", n, r.code, r.stderr)
		}
	}
	if said := all[0].stderr; !strings.Contains(said, "rank 2 (GPU 0), the fullest of 4 ranks") || strings.Contains(said, "not reported") {
		t.Errorf("the first task said %q", said)
	}
	if notes, _ := filepath.Glob(filepath.Join(folder, "plimsoll-slurm-77.0", "rank*.json")); len(notes) != 4 {
		t.Errorf("notes in one folder: %v", notes)
	}
}

func TestTheFirstTaskExplainsWhyAnotherDied(t *testing.T) {
	t.Parallel()
	all := srun(t, t.TempDir(), func(n int) []string {
		failure, code := "null", 0
		if n == 3 {
			text := "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB of which 1.06 GiB is free."
			failure, code = fmt.Sprintf(`{"type":"OutOfMemoryError","message":%q,"out_of_memory":true,"traceback":%q}`, text, text), 1
		}
		return []string{"PEAK=21474836480", "ERROR=" + failure, fmt.Sprintf("CODE=%d", code)}
	})
	if all[3].code != 1 || all[3].stderr != "" {
		t.Errorf("the task that died: %+v", all[3])
	}
	if said := all[0].stderr; all[0].code != 0 || !strings.Contains(said, "2.00 GiB") || !strings.Contains(said, "rank 3") {
		t.Errorf("the first task: code %d, said %q", all[0].code, said)
	}
}
