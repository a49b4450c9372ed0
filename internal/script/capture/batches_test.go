package capture

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/plimsoll/plimsoll/internal/script/probe/probetest"
)

// batchesOf captures a script of testdata and reads what its loaders make.
func batchesOf(t *testing.T, epochs int, args ...string) Batches {
	t.Helper()
	dir := t.TempDir()
	var out bytes.Buffer
	args[1] = filepath.Join("testdata", args[1])
	if _, err := Run(Request{Args: args, Env: os.Environ(), Dir: dir, Stdout: &out, Stderr: &out, Whole: true, Epochs: epochs}); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	b, err := ReadBatches(dir)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestBatchesAreThoseTheScriptWouldMake compares with what the same loaders give when the script goes through them itself.
func TestBatchesAreThoseTheScriptWouldMake(t *testing.T) {
	t.Parallel()
	python := probetest.Warm(t)
	got := batchesOf(t, 2, python, "lengths.py")
	said, err := exec.Command(python, filepath.Join("testdata", "lengths.py"), "oracle").Output()
	if err != nil {
		t.Fatal(err)
	}
	var want Batches
	if err := json.Unmarshal(said, &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Batches, want.Batches) || !reflect.DeepEqual(got.Eval, want.Eval) {
		t.Errorf("captured\n%v, %v; the script's own:\n%v, %v", got.Batches, got.Eval, want.Batches, want.Eval)
	}
	if !got.Complete || !reflect.DeepEqual(got.Epochs, []int{6, 12}) || got.Why != "" || len(got.Config) == 0 {
		t.Errorf("%+v", got)
	}
}

func TestATrainersEpochsAndEvaluationAreKnown(t *testing.T) {
	t.Parallel()
	python := probetest.Warm(t)
	got := batchesOf(t, 0, python, "hf_lengths.py", t.TempDir())
	if len(got.Batches) != 24 || !reflect.DeepEqual(got.Epochs, []int{8, 16, 24}) || got.Meant != 3 || !got.Complete || got.EvalEvery != 8 || len(got.Eval) != 3 {
		t.Errorf("%+v", got)
	}
	if len(got.Eval) == 3 && (got.Eval[0][0] != 5.0 || got.Eval[2][0] != 2.0) {
		t.Errorf("evaluation %v", got.Eval)
	}
}

func TestBatchesOfImagesHaveNoLength(t *testing.T) {
	t.Parallel()
	python := probetest.Warm(t)
	got := batchesOf(t, 0, python, "vision.py", "-b", "8")
	if len(got.Batches) == 0 || got.Batches[0][0] != 8.0 || got.Batches[0][1] != 0.0 || len(got.Config) > 0 {
		t.Errorf("%+v", got)
	}
}
