package forecast

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/gpu"
	"github.com/plimsoll/plimsoll/internal/model/exported"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/script/attempt"
	"github.com/plimsoll/plimsoll/internal/units"
)

func graph(t *testing.T, name string) *exported.Graph {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "model", "exported", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	g, err := exported.Read(f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// vit asks about ViT-B/16 with a batch of 32 on an H200 that has so much free.
func vit(t *testing.T, free units.Bytes) Question {
	t.Helper()
	card, err := gpu.Find("h200")
	if err != nil {
		t.Fatal(err)
	}
	j := job.Job{Source: "graph", Graph: "vit_b_16.json.gz", Loss: "cross-entropy", Classes: 1000, Batch: 32, Image: 224, Optimizer: "adamw"}
	if err := j.Check(); err != nil {
		t.Fatal(err)
	}
	return Question{Job: j, Source: predict.Source{Graph: graph(t, "vit_b_16.json.gz")}, Machine: predict.Machine{Card: card, Capacity: free}}
}

func TestTheMildestChangeThatFitsIsChosen(t *testing.T) {
	t.Parallel()
	plenty, err := Choose(vit(t, 80*units.GiB), attempt.Limits{})
	if err != nil || plenty.Changed || !plenty.Fits || plenty.Before != plenty.After {
		t.Fatalf("%+v, %v", plenty, err)
	}
	context := vit(t, 0).Machine.Card.Context
	for _, c := range []struct {
		name   string
		room   units.Bytes // of what the untouched run needs, context apart
		cap    bool        // the script's own cap sets it, not the card
		limits attempt.Limits
		want   func(attempt.Plan) bool
		fits   bool
	}{
		{"nine tenths", 9, false, attempt.Limits{}, func(p attempt.Plan) bool { return p == attempt.Plan{Split: 2} }, true},
		{"nine tenths by the script's cap", 9, true, attempt.Limits{}, func(p attempt.Plan) bool { return p == attempt.Plan{Split: 2} }, true},
		{"half", 5, false, attempt.Limits{}, func(p attempt.Plan) bool { return p.Split > 2 && !p.Checkpoint }, true},
		{"half, and a split was refused", 5, false, attempt.Limits{NoSplit: true}, func(p attempt.Plan) bool { return p == attempt.Plan{Split: 1, Checkpoint: true} }, true},
		{"a tenth", 1, false, attempt.Limits{Numerics: true}, func(p attempt.Plan) bool { return p.Split == 32 && p.Checkpoint && p.LoopOptimizer }, false},
	} {
		q := vit(t, (plenty.Before-context)*c.room/10+context)
		if c.cap {
			q.Machine.Capacity, q.Cap = 80*units.GiB, (plenty.Before-context)*c.room/10
		}
		got, err := Choose(q, c.limits)
		if err != nil || !c.want(got.Plan) || got.Fits != c.fits || !got.Changed || got.After >= got.Before {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
		if c.fits && got.After > got.Room {
			t.Errorf("%s: %s do not fit into %s", c.name, got.After, got.Room)
		}
	}
}

func TestAMilderPlanThanTheChosenDoesNotFit(t *testing.T) {
	t.Parallel()
	q := vit(t, 4*units.GiB)
	got, err := Choose(q, attempt.Limits{})
	if err != nil || !got.Fits || got.Plan.Split < 3 {
		t.Fatalf("%+v, %v", got, err)
	}
	s := search{q: q, needs: map[attempt.Plan]need{}}
	for _, p := range s.splits(attempt.Plan{}) {
		if n := s.need(p); (n.safe <= got.Room) != (p.Split >= got.Plan.Split) {
			t.Errorf("split %d needs %s of %s; chosen was %d", p.Split, n.safe, got.Room, got.Plan.Split)
		}
	}
}

func TestABatchThatNoLoaderGivesIsNotSplit(t *testing.T) {
	t.Parallel()
	q := vit(t, 4*units.GiB)
	q.Uncut = true
	got, err := Choose(q, attempt.Limits{})
	if err != nil || got.Plan.Split != 1 || !got.Plan.Checkpoint {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestRanksNeedRoomForTheirBuckets(t *testing.T) {
	t.Parallel()
	q := vit(t, 80*units.GiB)
	alone, err := Choose(q, attempt.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	q.Ranks = 2
	together, err := Choose(q, attempt.Limits{})
	if err != nil || together.Before < alone.Before+300*units.MiB { // 86.6 million gradients in buckets
		t.Errorf("%s in a pair, %s alone, %v", together.Before, alone.Before, err)
	}
}

func TestBlocksAreTheRepeatedOnesWithoutBatchNorm(t *testing.T) {
	t.Parallel()
	found := Blocks(graph(t, "vit_b_16.json.gz"))
	if len(found) != 12 || slices.Contains(found, "") {
		t.Errorf("found %v", found)
	}
	if found := Blocks(graph(t, "resnet50.json.gz")); len(found) != 0 {
		t.Errorf("found %v in a model whose blocks hold batch norm", found)
	}
}

func TestABatchThatTheScriptDrawsItselfIsCutAtTheModelsCall(t *testing.T) {
	t.Parallel()
	q := vit(t, 0)
	q.Uncut = true
	q.Machine.Capacity = q.Machine.Card.Context + 3*units.GiB
	got, err := Choose(q, attempt.Limits{NoCheckpoint: true})
	if err != nil || got.Fits || !got.Estimated || got.Plan.Chunk < 2 || got.Plan != (attempt.Plan{Split: 1, Chunk: 32 / got.Own.Batch}) {
		t.Fatalf("%+v, %v", got, err)
	}
	if got.Own.Batch*got.Own.Accumulate != 32 || got.Own.Bytes > q.Machine.Capacity {
		t.Errorf("the script's own options: %+v", got.Own)
	}
	refused, err := Choose(q, attempt.Limits{NoCheckpoint: true, NoChunk: true})
	if err != nil || refused.Plan.Chunk != 0 || refused.Estimated {
		t.Errorf("%+v, %v", refused, err)
	}
}
