package capture

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/gpu"
	"github.com/plimsoll/plimsoll/internal/model/exported"
	jobs "github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/model/traced"
	"github.com/plimsoll/plimsoll/internal/script/probe/probetest"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// followed traces a script of testdata and predicts it on an H200.
func followed(t *testing.T, args ...string) (*traced.Trace, *predict.Result) {
	t.Helper()
	python := probetest.Warm(t)
	args[0] = filepath.Join("testdata", args[0])
	var out bytes.Buffer
	trace, err := Trace(Request{Args: append([]string{python}, args...), Env: os.Environ(), Dir: t.TempDir(), Stdout: &out, Stderr: &out}, 5*time.Minute)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	res, err := predict.Followed(trace, args[0], h200(t))
	if err != nil {
		t.Fatal(err)
	}
	if trace.Ended == traced.Failed {
		t.Fatalf("the script failed at line %d: %s\n%s", trace.Line, trace.Why, out.String())
	}
	return trace, res
}

func h200(t *testing.T) predict.Machine {
	t.Helper()
	card, err := gpu.Find("h200")
	if err != nil {
		t.Fatal(err)
	}
	return predict.Machine{Card: card}
}

func TestAScriptIsFollowedThroughEvaluationAndCheckpoints(t *testing.T) {
	t.Parallel()
	saved := filepath.Join(t.TempDir(), "model.pt")
	trace, res := followed(t, "phases.py", saved)
	if trace.Ended != traced.AtEnd || res.Report.Phase != torch.PhaseEval {
		t.Errorf("ended %q, peak in %q; want the end, and evaluation", trace.Ended, res.Report.Phase)
	}
	logits := units.Bytes(8192 * 1000 * 4)
	if got := res.Report.Peak.Allocated; got < 2*logits || got > 2*logits+80*units.MiB { // cuBLAS has two workspaces
		t.Errorf("peak %d; evaluation has logits and their log-softmax of %d each", got, logits)
	}
	if _, err := os.Stat(saved); err == nil {
		t.Error("the script's checkpoint was written")
	}
}

// Parameters of lazy modules get their shapes from the first batch and lie on the card from then on, with gradients and momentum.
func TestLazyModulesAreFollowed(t *testing.T) {
	t.Parallel()
	trace, res := followed(t, "lazy.py")
	params := int64(16*3*9+16) + 2*16 + (16*15*15*64 + 64) + (64*10 + 10)
	if trace.Steps != 3 || trace.Params != params || res.Report.Phases[torch.PhaseOptimizer] < units.Bytes(3*4*params) || res.Report.Phases[torch.PhaseEval] == 0 {
		t.Errorf("%d steps, %d parameters, want %d; phases %v", trace.Steps, trace.Params, params, res.Report.Phases)
	}
}

// A sparse matrix is on the card as indices and values; a sparse gradient has a row for every index, and SparseAdam's two moments are dense. Attention by
// products keeps its scores in fp32, as sdpa_kernel asked.
func TestSparseTensorsAreFollowed(t *testing.T) {
	t.Parallel()
	trace, res := followed(t, "sparse.py")
	table := units.Bytes(5000 * 100 * 4)
	if trace.Steps != 6 || len(trace.Depends) == 0 || res.Report.Range == nil {
		t.Errorf("%d steps, sizes depend on data at %v, range %v", trace.Steps, trace.Depends, res.Report.Range)
	}
	if got := res.Report.Peak.Allocated; got < 3*table || got > 3*table+70*units.MiB { // two workspaces of cuBLAS; a dense gradient or a dense matrix would not fit in between
		t.Errorf("peak %s; the table and two moments have %s", got, 3*table)
	}
	if !slices.ContainsFunc(trace.Owners, func(o traced.Owner) bool {
		return strings.Contains(o.Op, "_safe_softmax") || strings.Contains(o.Op, "_softmax")
	}) {
		t.Error("no scores were made")
	}
}

// CTC keeps a number for each of 200 steps and 61 places (the longest target is 30, with blanks between) of 8 sequences; how long targets are is known on the host.
func TestCTCAndMasksOfBytesAreFollowed(t *testing.T) {
	t.Parallel()
	trace, res := followed(t, "ctc.py")
	if trace.Steps != 3 || len(trace.Depends) != 0 {
		t.Errorf("%d steps; depends on data at %v", trace.Steps, trace.Depends)
	}
	kept, logits := units.Bytes(8*200*61*4), units.Bytes(200*8*29*4)
	if back := res.Report.Phases[torch.PhaseBackward]; back < 2*kept+4*logits {
		t.Errorf("backward %s; forward kept %s, and backward takes as much again", back, kept)
	}
}

// Where there is no model and no optimizer, every backward pass is a step.
func TestTensorsThatAreTrainedByHandAreFollowed(t *testing.T) {
	t.Parallel()
	trace, res := followed(t, "by_hand.py")
	column := units.Bytes(4 << 20)
	if trace.Ended != traced.AtEnd || trace.Steps != 5 || res.Report.Peak.Allocated < 6*column || res.Report.Peak.Allocated > 16*column {
		t.Errorf("ended %q, %d steps, peak %s", trace.Ended, trace.Steps, res.Report.Peak.Allocated)
	}
}

func TestSecondBackwardPassesAreFollowed(t *testing.T) {
	t.Parallel()
	trace, res := followed(t, "penalty.py")
	if trace.Steps != 8 || res.Report.Phases[torch.PhaseOptimizer] == 0 {
		t.Errorf("%d steps of two optimizers in four iterations; phases %v", trace.Steps, res.Report.Phases)
	}
}

func TestSizesThatDependOnDataAreBounded(t *testing.T) {
	t.Parallel()
	_, res := followed(t, "masked.py")
	r := res.Report.Range
	if r == nil || r.Low >= r.High || r.High != res.Report.Peak.Allocated || !strings.Contains(r.Why, "masked.py:") {
		t.Errorf("range %+v of peak %d", r, res.Report.Peak.Allocated)
	}
}

// Which rows a mask keeps is asked on the host; the indices go back. Two checks of values on the way are taken to pass.
func TestClustersOfAnAdaptiveSoftmaxAreBounded(t *testing.T) {
	t.Parallel()
	trace, res := followed(t, "clusters.py")
	if trace.Steps != 2 || !trace.Bounded() || res.Report.Range == nil {
		t.Errorf("%d steps, bounded: %v, range %v; want two steps and a range", trace.Steps, trace.Bounded(), res.Report.Range)
	}
}

func TestSizesAreBoundedOnTheHostAndChecksOfValuesPass(t *testing.T) {
	t.Parallel()
	trace, res := followed(t, "left.py")
	r := res.Report.Range
	if trace.Steps != 3 || r == nil || r.Low >= r.High || !strings.Contains(r.Why, "left.py:14") {
		t.Errorf("%d steps, range %+v of peak %d, ended: %s %s", trace.Steps, r, res.Report.Peak.Allocated, trace.Ended, trace.Why)
	}
}

// Each of 4096 tokens goes to two of eight experts: whatever the shares, hidden layers of 8192 rows are kept for backward, not of eight times as many.
func TestExpertsGetEqualShares(t *testing.T) {
	t.Parallel()
	trace, res := followed(t, "experts.py")
	hidden := units.Bytes(2 * 4096 * 1024 * 4)
	peak, r := res.Report.Peak.Allocated, res.Report.Range
	if trace.Steps != 3 || peak < 2*hidden || peak > 3*hidden+80*units.MiB {
		t.Errorf("%d steps, peak %s; what the experts keep is %s and more", trace.Steps, peak, 2*hidden)
	}
	if r == nil || r.Low != peak || r.High <= peak || !strings.Contains(r.Why, "experts.py:18") {
		t.Errorf("range %+v of peak %s", r, peak)
	}
}

// DeepSpeed with one rank: weights in bf16, masters and two moments in fp32, gradients in bf16 and, for the step, in fp32 once.
func TestDeepSpeedsEngineIsFollowed(t *testing.T) {
	t.Parallel()
	trace, res := followed(t, "engine.py")
	params := units.Bytes(2*2048*4096 + 4096 + 2048)
	workspaces := 4 * 33 * units.MiB
	peak := res.Report.Peak.Allocated
	if trace.Steps != 3 || peak < params*(2+4+8+2+4) || peak > params*(2+4+8+2+4)+workspaces || res.Report.Phase != torch.PhaseOptimizer {
		t.Errorf("%d steps, peak %s in %s; %d parameters", trace.Steps, peak, res.Report.Phase, params)
	}
}

// Layers of 8192 rows and 1024 features keep their input and that of GELU in bf16; weights and gradients are fp32, and a layer's weights are bf16 while it runs.
func TestFullyShardsMixedPrecisionIsFollowed(t *testing.T) {
	t.Parallel()
	trace, res := followed(t, "narrow.py")
	kept, params := units.Bytes(12*8192*1024*2), units.Bytes(6*1024*1025*4)
	if peak := res.Report.Peak.Allocated; trace.Steps != 3 || peak < kept+params || peak > kept+2*params+200*units.MiB {
		t.Errorf("%d steps, peak %s; kept %s", trace.Steps, peak, kept)
	}
}

func TestWhatLeavesTheCardIsLaidOutFirst(t *testing.T) {
	t.Parallel()
	_, res := followed(t, "pictures.py")
	picture := units.Bytes(3 * 4096 * 4096 * 4)
	if peak := res.Report.Peak.Allocated; peak < 2*picture || peak > 2*picture+80*units.MiB {
		t.Errorf("peak %s; the picture and its copy take %s", peak, 2*picture)
	}
}

// A capture runs its graph operator by operator on package eager, a trace follows PyTorch itself: two ways to the same number.
func TestATraceAgreesWithTheCapture(t *testing.T) {
	t.Parallel()
	for _, script := range []string{"agree.py fp32", "agree.py bf16", "convnet.py"} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			args := strings.Fields(script)
			_, whole := followed(t, args...)
			dir := t.TempDir()
			var out bytes.Buffer
			path, err := Run(Request{Args: append([]string{probetest.Warm(t)}, args...), Env: os.Environ(), Dir: dir, Stdout: &out, Stderr: &out})
			if err != nil {
				t.Fatalf("%v\n%s", err, out.String())
			}
			step := predicted(t, path)
			a, b := step.Report.Peak.Allocated, whole.Report.Peak.Allocated
			if diff := max(a, b) - min(a, b); diff > a/50 {
				t.Errorf("captured %s, traced %s", a, b)
			}
		})
	}
}

// predicted predicts a captured job.
func predicted(t *testing.T, path string) *predict.Result {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	j, err := jobs.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	g, err := os.Open(filepath.Join(filepath.Dir(path), j.Graph))
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	about, err := g.Stat()
	if err != nil {
		t.Fatal(err)
	}
	graph, err := exported.Read(g, about.Size())
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Check(); err != nil {
		t.Fatal(err)
	}
	res, err := predict.Run(j, predict.Source{Graph: graph}, h200(t))
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestAScriptFindsTheFilesItWroteAndNoneIsWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "old.txt"), []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	trace, res := followed(t, "checkpoints.py", dir)
	if trace.Ended != traced.AtEnd {
		t.Errorf("ended %q", trace.Ended)
	}
	if copies := 10 * units.Bytes(1024*1024*4); res.Report.Peak.Allocated < copies { // the model, and nine that were loaded to the GPU
		t.Errorf("peak %s; checkpoints loaded to the GPU take %s", res.Report.Peak.Allocated, copies)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 || left[0].Name() != "old.txt" {
		t.Errorf("the script's folder has %v (%v), not only what it had before", left, err)
	}
}

func TestDistributionsAreBelievedToBeValid(t *testing.T) {
	t.Parallel()
	if trace, _ := followed(t, "policy.py"); trace.Ended != traced.AtEnd || trace.Steps != 3 {
		t.Errorf("ended %q after %d steps", trace.Ended, trace.Steps)
	}
}

func TestKernelsOfTritonMakeNoTensors(t *testing.T) {
	t.Parallel()
	trace, res := followed(t, "kernel.py")
	out := units.Bytes(2048 * 4096 * 4)
	rest := units.Bytes(2*4096*1025*4+2048*1024*4) + 4*40*units.MiB // weights and their gradients, the batch, workspaces of cuBLAS
	if got := res.Report.Peak.Allocated; trace.Steps != 3 || got < 2*out || got > 3*out+rest {
		t.Errorf("%d steps, peak %s", trace.Steps, got)
	}
}

// Twelve hundred evaluation passes take as long as a dozen: those after the first few are not run.
func TestEvaluationLoopsAreShortened(t *testing.T) {
	t.Parallel()
	trace, res := followed(t, "evaluated.py")
	if trace.Ended != traced.AtEnd || trace.Steps != 3 || res.Report.Phases[torch.PhaseEval] == 0 {
		t.Errorf("ended %q after %d steps, phases %v", trace.Ended, trace.Steps, res.Report.Phases)
	}
}

func TestPackedSequencesAreAsLongAsTheyAre(t *testing.T) {
	t.Parallel()
	if trace, res := followed(t, "packed.py"); trace.Ended != traced.AtEnd || trace.Steps != 3 || res.Report.Range != nil {
		t.Errorf("ended %q after %d steps, range %v", trace.Ended, trace.Steps, res.Report.Range)
	}
}

// The capture before a trace runs the script up to its first step: the trace reads the prepared data that it left, and the model that is saved before training leaves no file.
func TestScriptsThatPrepareDataAreFollowed(t *testing.T) {
	t.Parallel()
	python, dir, since := probetest.Warm(t), t.TempDir(), time.Now().Add(-time.Minute)
	for range 2 {
		trace, err := Trace(Request{Args: []string{python, "testdata/prepared.py", dir}, Env: os.Environ(), Dir: t.TempDir(), Stdout: io.Discard, Stderr: io.Discard, Since: since}, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if trace.Ended != traced.AtEnd || trace.Steps != 3 {
			t.Errorf("ended %q at line %d after %d steps: %s", trace.Ended, trace.Line, trace.Steps, trace.Why)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%d files were left, want only the prepared data (%v)", len(left), err)
	}
}

func TestTensorsAreMadeOfListsWithTensors(t *testing.T) {
	t.Parallel()
	if trace, _ := followed(t, "listed.py"); trace.Ended != traced.AtEnd || trace.Steps != 3 {
		t.Errorf("ended %q after %d steps", trace.Ended, trace.Steps)
	}
}

func TestLoadersWhoseSamplerRepeatsAreNotCutShort(t *testing.T) {
	t.Parallel()
	if trace, _ := followed(t, "forever.py"); trace.Ended != traced.AtEnd && trace.Ended != traced.Repeats || trace.Steps < 3 {
		t.Errorf("ended %q after %d steps", trace.Ended, trace.Steps)
	}
}

func TestLoadersWhoseBatchesAScriptCountsAreNotCutShort(t *testing.T) {
	t.Parallel()
	if trace, _ := followed(t, "counted.py"); trace.Ended != traced.AtEnd && trace.Ended != traced.Repeats || trace.Steps < 13 {
		t.Errorf("ended %q (%s) after %d steps", trace.Ended, trace.Why, trace.Steps)
	}
}

func TestWeightsOfRecurrentLayersAreCopiedIntoOneBuffer(t *testing.T) {
	t.Parallel()
	trace, res := followed(t, "flattened.py")
	weights := units.Bytes(4 * 6144 * (2*2048 + 2))
	if peak := res.Report.Peak.Allocated; trace.Ended != traced.AtEnd || peak < 2*weights || peak > 2*weights+units.MiB {
		t.Errorf("ended %q (%s), peak %s; the weights have %s", trace.Ended, trace.Why, peak, weights)
	}
}

func TestThreadsAndBuffersOfLibrariesAreFollowed(t *testing.T) {
	t.Parallel()
	trace, res := followed(t, "libraries.py")
	weights := units.Bytes(64 * 256 * 256 * 4)
	if peak := res.Report.Peak.Allocated; trace.Ended != traced.AtEnd || trace.Steps != 3 || peak < weights || peak > weights+80*units.MiB {
		t.Errorf("ended %q after %d steps, peak %s; the weights have %s", trace.Ended, trace.Steps, peak, weights)
	}
}

// The thread of the time limit writes a trace while the script goes on: its events must name nothing that its tables do not have.
func TestATraceThatIsWrittenWhileTheScriptGoesOnCanBeRead(t *testing.T) {
	t.Parallel()
	python := probetest.Warm(t)
	var out bytes.Buffer
	trace, err := Trace(Request{Args: []string{python, filepath.Join("testdata", "written_meanwhile.py")}, Env: os.Environ(), Dir: t.TempDir(), Stdout: &out, Stderr: &out}, 5*time.Minute)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if trace.Ended != traced.AtLimit || !trace.Held() {
		t.Errorf("ended %q (%s), held %t", trace.Ended, trace.Why, trace.Held())
	}
}
