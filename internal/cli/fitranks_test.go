package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/plimsoll/plimsoll/internal/live/watch"
	"github.com/plimsoll/plimsoll/internal/script/probe/probetest"
	"github.com/plimsoll/plimsoll/internal/units"
)

// pair is a command that runs a script of testdata/fit in two ranks.
func pair(python, launcher, script string, args ...string) []string {
	command := []string{"--", python, "-m"}
	switch launcher {
	case "torchrun":
		command = append(command, "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
	case "accelerate": // --multi_gpu starts as many processes as it is told; the script keeps them on the CPU
		command = append(command, "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1", "--mixed_precision", "no",
			"--dynamo_backend", "no", "--main_process_port", "0")
	}
	return append(append(command, filepath.Join("testdata", "fit", script)), args...)
}

var oneThread = []string{"OMP_NUM_THREADS=1"}

func TestRanksSplitTogetherAndEndWhereTheUntouchedOnesDo(t *testing.T) {
	t.Parallel()
	python := probetest.Warm(t)
	for _, c := range []struct{ launcher, script string }{{"torchrun", "ranks.py"}, {"accelerate", "accelerated.py"}} {
		t.Run(c.launcher, func(t *testing.T) {
			t.Parallel()
			report := t.TempDir()
			command := pair(python, c.launcher, c.script)
			untouched := runs(t, oneThread, append([]string{"run", "--report", report}, command...)...)
			untouched.wants(t, 0)
			for _, rank := range []string{"rank0-*.json", "rank1-*.json"} {
				if found, _ := filepath.Glob(filepath.Join(report, rank)); len(found) != 1 {
					t.Errorf("%s: %v", rank, found)
				}
			}
			split := runs(t, oneThread, append([]string{"run", "--fit", "--split", "4"}, command...)...)
			split.wants(t, 0, "it ran with: micro-batch 2 × 4", "seen in effect on 2 ranks: 4 micro-batches per batch, accumulated")
			if far := furthest(t, untouched.numbers(t), split.numbers(t)); far > 1e-6 {
				t.Errorf("parameters differ by up to %g", far)
			}
		})
	}
}

func TestARankThatCannotSplitSpeaksForAll(t *testing.T) {
	t.Parallel()
	python := probetest.Warm(t)
	command := pair(python, "torchrun", "ranks.py", "norm")
	untouched := runs(t, oneThread, append([]string{"run"}, command...)...)
	left := runs(t, oneThread, append([]string{"run", "--fit", "--split", "4"}, command...)...)
	left.wants(t, 0, "micro-batches left alone on all 2 ranks, for rank 1: BatchNorm1d normalises over the batch")
	if far := furthest(t, untouched.numbers(t), left.numbers(t)); far > 1e-7 {
		t.Errorf("they were not left alone: parameters differ by %g", far)
	}
}

func TestAnOutOfMemoryOnOneRankStartsAllOfThemAnew(t *testing.T) {
	t.Parallel()
	python := probetest.Warm(t)
	got := runs(t, oneThread, append([]string{"run", "--fit"}, pair(python, "torchrun", "ranks.py", "oom")...)...)
	got.wants(t, 0, "out of memory on rank 1", "Starting again: micro-batch 4 × 2", "seen in effect on 2 ranks: 2 micro-batches per batch")
	if got.numbers(t) == nil {
		t.Error("they did not finish")
	}
}

func TestRanksAreForeseenTogether(t *testing.T) {
	t.Parallel()
	python := probetest.Warm(t)
	got := runsOn(t, []watch.Card{h200With(80 * units.GiB), h200With(40 * units.GiB)}, oneThread,
		append([]string{"run", "--fit"}, pair(python, "torchrun", "ranks.py")...)...)
	got.wants(t, 0, "of 40.0 GiB free: it fits as it is.") // the fuller of the two cards they take
	if got.numbers(t) == nil {
		t.Error("they did not train")
	}
}

// careless starts two ranks, waits for both and ends none.
const careless = `
import os, socket, subprocess, sys
with socket.socket() as s:
    s.bind(("127.0.0.1", 0))
    port = s.getsockname()[1]
base = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
ranks = [subprocess.Popen([sys.executable, *sys.argv[1:]], env={**base, "RANK": str(i)}) for i in range(2)]
sys.exit(max(rank.wait() for rank in ranks))
`

func TestRanksThatWaitForADeadOneAreEndedWithIt(t *testing.T) {
	t.Parallel()
	python := probetest.Python(t)
	launcher := filepath.Join(t.TempDir(), "launch.py")
	if err := os.WriteFile(launcher, []byte(careless), 0o644); err != nil {
		t.Fatal(err)
	}
	got := runs(t, oneThread, "run", "--fit", "--", python, launcher, filepath.Join("testdata", "fit", "ranks.py"), "oom", "hang")
	got.wants(t, 0, "out of memory on rank 1", "Starting again: micro-batch 4 × 2", "seen in effect on 2 ranks")
	if got.numbers(t) == nil {
		t.Error("they did not finish")
	}
}

func TestOneOfSeveralRanksIsLeftAlone(t *testing.T) {
	t.Parallel()
	got := runs(t, []string{"WORLD_SIZE=2", "RANK=0"}, "run", "--fit", "--", "sh", "-c", "exit 3")
	got.wants(t, 3, "left alone: this is one rank of several (WORLD_SIZE=2); put plimsoll in front of the launcher")
}
