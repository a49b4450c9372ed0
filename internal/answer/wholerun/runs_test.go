package wholerun

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/gpu"
	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/model/lengths"
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// measuredRun is a run on one H200 (PyTorch 2.11, transformers 5.17): every batch padded to its longest sample, evaluations in between, free and under
// limits of set_per_process_memory_fraction.
type measuredRun struct {
	ID            string
	Config        json.RawMessage
	Task          string
	Precision     string
	Optimizer     torch.Optimizer
	Loop          setup.Loop
	Checkpointing bool
	Batch         int
	Lengths       []int
	EvalBatch     int   `json:"eval_batch"`
	EvalLengths   []int `json:"eval_lengths"`
	EvalAfter     []int `json:"eval_after"`
	Limits        []struct {
		Cap units.Bytes `json:"cap_bytes"`
		OOM *struct {
			After int `json:"after_steps"`
		}
		Retries int
	}
	Measured struct {
		MaxAllocated units.Bytes `json:"max_allocated"`
		MaxReserved  units.Bytes `json:"max_reserved"`
	}
}

func measuredRuns(t *testing.T) []measuredRun {
	t.Helper()
	if name := os.Getenv("PLIMSOLL_RUNS"); name != "" && name != everyRun {
		return readRuns(t, name)
	}
	out := readRuns(t, "testdata/runs.jsonl.gz")
	for i, r := range readRuns(t, "testdata/later.jsonl.gz") {
		if i == 2 || os.Getenv("PLIMSOLL_RUNS") == everyRun {
			out = append(out, r)
		}
	}
	return out
}

// everyRun is the value of PLIMSOLL_RUNS that plays all measured runs; it takes a minute. Another value names a file of runs in the same form.
const everyRun = "all"

func readRuns(t *testing.T, name string) []measuredRun {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zr, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(zr)
	lines.Buffer(nil, 1<<26)
	var out []measuredRun
	for lines.Scan() {
		var r measuredRun
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// sim is the run as plimsoll would be asked about it.
func (r *measuredRun) sim(t *testing.T) (*Sim, *Schedule) {
	t.Helper()
	precision, err := torch.ParsePrecision(r.Precision)
	if err != nil {
		t.Fatal(err)
	}
	j := job.Job{ID: r.ID, Source: "hf", Config: r.Config, Task: r.Task, Batch: r.Batch, Seq: 8, Optimizer: r.Optimizer, Loop: r.Loop, Checkpointing: r.Checkpointing}
	j.ParamDType, j.Autocast = precision.Params(), precision.Autocast()
	if err := j.Check(); err != nil {
		t.Fatal(err)
	}
	config, err := hfconfig.Parse(r.Config)
	if err != nil {
		t.Fatal(err)
	}
	card, err := gpu.Find("h200")
	if err != nil {
		t.Fatal(err)
	}
	train := lengths.Batching{Sampler: lengths.Sequential, Batch: r.Batch}
	eval := lengths.Batching{Sampler: lengths.Sequential, Batch: r.EvalBatch}
	schedule := &Schedule{Train: train.Epoch(r.Lengths, 0), Eval: eval.Epoch(r.EvalLengths, 0), EvalAfter: r.EvalAfter}
	return NewSim(j, predict.Source{Config: config}, predict.Machine{Card: card}), schedule
}

// TestMeasuredRuns plays the runs of testdata/runs.jsonl.gz, and one of six (PLIMSOLL_RUNS=all: all) that were measured after the simulation was written, capped
// 2 % below and 2 % above the need it predicted: dies, lives.
//
// It plays whole runs as they were measured: the free card's maxima, and under every limit the verdict, the step of the failure and the retries.
func TestMeasuredRuns(t *testing.T) {
	t.Parallel()
	for _, r := range measuredRuns(t) {
		t.Run(r.ID, func(t *testing.T) {
			t.Parallel()
			s, schedule := r.sim(t)
			if r.Measured.MaxAllocated > 0 {
				r.free(t, s, schedule)
			}
			r.within(t, s, schedule)
		})
	}
}

// free compares the maxima on a card without limit.
func (r *measuredRun) free(t *testing.T, s *Sim, schedule *Schedule) {
	t.Helper()
	free, err := s.Play(schedule, alloc.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	allocated, reserved := off(free.MaxAllocated, r.Measured.MaxAllocated), off(free.MaxReserved, r.Measured.MaxReserved)
	t.Logf("free: allocated %d (%+.3f %%), reserved %d (%+.2f %%)", free.MaxAllocated, allocated, free.MaxReserved, reserved)
	if math.Abs(allocated) > 0.5 || math.Abs(reserved) > 3 {
		t.Errorf("measured %d allocated, %d reserved", r.Measured.MaxAllocated, r.Measured.MaxReserved)
	}
}

// within compares what happened under limits.
func (r *measuredRun) within(t *testing.T, s *Sim, schedule *Schedule) {
	t.Helper()
	for _, l := range r.Limits {
		within, err := s.Play(schedule, alloc.Policy{Cap: l.Cap})
		if err != nil {
			t.Fatal(err)
		}
		done := -1
		if within.Failed != nil {
			done = within.Failed.Step - 1
		}
		t.Logf("in %d: done %d, retries %d", l.Cap, done, within.Retries)
		switch {
		case (l.OOM == nil) != (within.Failed == nil):
			t.Errorf("in %d: measured failure %+v, predicted %+v", l.Cap, l.OOM, within.Failed)
		case l.OOM != nil && max(l.OOM.After-done, done-l.OOM.After) > 2:
			t.Errorf("in %d: measured failure after %d steps, predicted after %d", l.Cap, l.OOM.After, done)
		case within.Retries != l.Retries:
			t.Errorf("in %d: measured %d retries, predicted %d", l.Cap, l.Retries, within.Retries)
		}
	}
}

func off(predicted, measured units.Bytes) float64 {
	return 100 * (float64(predicted)/float64(measured) - 1)
}

// TestTurnsOfOneShapeAreTheTapeItself compares the run of one shape, pieced together from turns, with the tape of the job's three steps.
func TestTurnsOfOneShapeAreTheTapeItself(t *testing.T) {
	t.Parallel()
	r := measuredRuns(t)[0]
	s, _ := r.sim(t)
	b := lengths.Batch{Samples: 3, Longest: 77, Padded: true}
	whole, _, err := s.shapes.Tape(s.shape(b), 1)
	if err != nil {
		t.Fatal(err)
	}
	want, err := alloc.Run(whole, alloc.Policy{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Play(&Schedule{Train: slices.Repeat([]lengths.Batch{b}, 3)}, alloc.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	if got.MaxAllocated != want.Stats.Peak.Allocated || got.MaxReserved != want.Stats.Peak.Reserved {
		t.Errorf("turns: %d allocated, %d reserved; tape: %+v", got.MaxAllocated, got.MaxReserved, want.Stats.Peak)
	}
}
