package shard

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/units"
)

// step is the tape of a model of some layers: parameters, a forward, a backward, an optimizer.
func step(layers int, params, activations units.Bytes) *tape.Tape {
	t := &tape.Tape{Owners: []tape.Owner{{}}, Moments: []tape.Moment{{Step: 1, Phase: "forward"}, {Step: 1, Phase: "backward"}, {Step: 1, Phase: "optimizer"}}}
	alloc := func(c tape.Category, module string, size units.Bytes) uint32 {
		t.Owners = append(t.Owners, tape.Owner{Category: c, Module: module})
		id := uint32(t.Allocs)
		t.Allocs++
		t.Events = append(t.Events, tape.Event{Kind: tape.Alloc, Owner: uint32(len(t.Owners) - 1), ID: id, Size: size})
		return id
	}
	free := func(id uint32) {
		for _, e := range t.Events {
			if e.Kind == tape.Alloc && e.ID == id {
				t.Events = append(t.Events, tape.Event{Kind: tape.Free, Owner: e.Owner, ID: id, Size: e.Size})
				return
			}
		}
	}
	name := func(i int) string { return "layers." + string(rune('0'+i%10)) }
	alloc(tape.Parameters, "embed", params)
	for i := range layers {
		alloc(tape.Parameters, name(i), params)
	}
	t.Events = append(t.Events, tape.Event{Kind: tape.Mark, Owner: 0})
	var saved []uint32
	for i := range layers {
		saved = append(saved, alloc(tape.Activations, name(i), activations))
	}
	t.Events = append(t.Events, tape.Event{Kind: tape.Mark, Owner: 1})
	for i := range saved {
		alloc(tape.Gradients, name(i), params)
		free(saved[i])
	}
	t.Events = append(t.Events, tape.Event{Kind: tape.Mark, Owner: 2})
	for i := range saved {
		alloc(tape.Optimizer, name(i), 2*params)
	}
	return t
}

func TestMoreShardingNeverNeedsMore(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		layers := rapid.IntRange(1, 10).Draw(t, "layers")
		params := units.Bytes(rapid.Int64Range(2e9, 1<<34).Draw(t, "params")) // as much as DeepSpeed's bucket: a small model is better off with DDP
		activations := units.Bytes(rapid.Int64Range(1, 1<<34).Draw(t, "activations"))
		ranks := rapid.IntRange(2, 64).Draw(t, "ranks")
		tp := step(layers, params, activations)
		last := units.Bytes(1 << 62)
		for _, kind := range []setup.Sharding{"ddp", "zero1", "zero2", "zero3"} {
			e, err := PerRank(tp, Plan{Kind: kind, Ranks: ranks})
			if err != nil {
				t.Fatal(err)
			}
			masters := units.Bytes(0)
			if kind == "zero1" { // DeepSpeed has masters, which DDP has not
				masters = (units.Bytes(layers)*params + units.Bytes(ranks) - 1) / units.Bytes(ranks)
			}
			if e.Peak > last+masters && kind != "zero3" { // stage 3 keeps a billion parameters gathered beside its shares
				t.Errorf("%s needs %d, the plan before it %d", kind, e.Peak, last)
			}
			last = e.Peak
			more, err := PerRank(tp, Plan{Kind: kind, Ranks: 2 * ranks})
			if err != nil || more.Peak > e.Peak {
				t.Errorf("%s on twice the ranks needs %d instead of %d (%v)", kind, more.Peak, e.Peak, err)
			}
		}
	})
}

func TestStage3PaysOffForLargeModels(t *testing.T) {
	t.Parallel()
	need := func(kind setup.Sharding, layer units.Bytes) units.Bytes {
		e, err := PerRank(step(32, layer, 10), Plan{Kind: kind, Ranks: 8})
		if err != nil {
			t.Fatal(err)
		}
		return e.Peak
	}
	if two, three := need("zero2", 2e9), need("zero3", 2e9); three > two*2/3 {
		t.Errorf("64 GB of parameters: stage 3 needs %d, stage 2 %d", three, two)
	}
	if two, three := need("zero2", 1e6), need("zero3", 1e6); three < two {
		t.Errorf("32 MB of parameters: stage 3 needs %d, stage 2 %d", three, two)
	}
}

func TestBucketViewsSaveTheGradientsOnce(t *testing.T) {
	t.Parallel()
	tp := step(4, 1000, 10)
	with, _ := PerRank(tp, Plan{Kind: "ddp", Ranks: 2})
	without, _ := PerRank(tp, Plan{Kind: "ddp", Ranks: 2, BucketView: true})
	if with.Peak-without.Peak != 4000 {
		t.Errorf("buckets take %d bytes, the gradients 4000", with.Peak-without.Peak)
	}
}

func TestPlansThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	for _, p := range []Plan{{Kind: "ddp", Ranks: 1}, {Kind: "fsdp", Ranks: 2}, {Kind: "zero3", Ranks: -1}, {Kind: "ddp", Ranks: 2, Stages: -1}} {
		if _, err := PerRank(step(1, 1, 1), p); err == nil {
			t.Errorf("%+v was accepted", p)
		}
	}
	if err := (Plan{Kind: "fsdp", Ranks: 2}).Check(); !strings.Contains(err.Error(), "fsdp2") {
		t.Errorf("no suggestion: %v", err)
	}
}
