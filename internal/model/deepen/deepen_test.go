package deepen

import (
	"errors"
	"fmt"
	"testing"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
)

// toy records training steps of a model of so many layers: each keeps an activation for backward, which frees it, hands a gradient down and leaves one for
// the parameter. odd is a layer that keeps more, -1 for none; with a period, so are those a multiple of it away.
type toy struct {
	tape   tape.Tape
	layers []int32
	owners map[tape.Owner]uint32
	made   int
	steps  []int
}

func record(depth, steps, odd int) *toy { return recordInTurn(depth, steps, odd, depth) }

func recordInTurn(depth, steps, odd, period int) *toy {
	r := &toy{owners: map[tape.Owner]uint32{}}
	r.tape.Owners = []tape.Owner{{}}
	for l := range depth {
		r.alloc(l, tape.Parameters, 1000)
	}
	r.made = len(r.tape.Events)
	grads := make([]uint32, depth)
	for step := 1; step <= steps; step++ {
		r.mark(step, "zero_grad")
		for l := range depth {
			if step > 1 {
				r.free(-1, grads[l])
			}
		}
		r.mark(step, "forward")
		kept := make([]uint32, depth)
		for l := range depth {
			size := units.Bytes(50)
			if l%period == odd {
				size = 70
			}
			kept[l] = r.alloc(l, tape.Activations, size)
			r.free(l, r.alloc(l, tape.Workspace, 5))
		}
		loss := r.alloc(-1, tape.Activations, 8)
		r.mark(step, "backward")
		down := loss
		for l := depth - 1; l >= 0; l-- {
			grads[l] = r.alloc(l, tape.Gradients, 1000)
			next := r.alloc(l, tape.Activations, 60)
			r.free(l, down)
			r.free(l, kept[l])
			down = next
		}
		r.free(-1, down)
		r.steps = append(r.steps, len(r.tape.Events))
	}
	return r
}

func (r *toy) owner(layer int, c tape.Category) uint32 {
	o := tape.Owner{Category: c, Module: "head"}
	if layer >= 0 {
		o.Module = fmt.Sprintf("model.layers.%d.mlp", layer)
	}
	i, ok := r.owners[o]
	if !ok {
		i = uint32(len(r.tape.Owners))
		r.owners[o] = i
		r.tape.Owners = append(r.tape.Owners, o)
	}
	return i
}

func (r *toy) add(layer int, e tape.Event) {
	r.tape.Events = append(r.tape.Events, e)
	r.layers = append(r.layers, int32(layer))
}

func (r *toy) mark(step int, phase string) {
	r.add(-1, tape.Event{Kind: tape.Mark, Owner: uint32(len(r.tape.Moments))})
	r.tape.Moments = append(r.tape.Moments, tape.Moment{Step: step, Phase: phase})
}

func (r *toy) alloc(layer int, c tape.Category, size units.Bytes) uint32 {
	id := uint32(r.tape.Allocs)
	r.tape.Allocs++
	r.add(layer, tape.Event{Kind: tape.Alloc, ID: id, Owner: r.owner(layer, c), Size: size})
	return id
}

func (r *toy) free(layer int, id uint32) {
	for _, e := range r.tape.Events {
		if e.Kind == tape.Alloc && e.ID == id {
			r.add(layer, tape.Event{Kind: tape.Free, ID: id, Owner: e.Owner, Size: e.Size})
			return
		}
	}
}

func (r *toy) cut(zones ...int) (*Template, error) {
	return Cut(Recording{Tape: &r.tape, Layers: r.layers, Made: r.made, Steps: r.steps, Zones: zones})
}

// told writes an event in words.
func told(t *tape.Tape, e tape.Event) string {
	if e.Kind == tape.Mark {
		return fmt.Sprint(t.Moments[e.Owner])
	}
	return fmt.Sprintf("%d %d %d %v", e.Kind, e.ID, e.Size, t.Owners[e.Owner])
}

func TestATemplateOfFewLayersPlaysAnyDepth(t *testing.T) {
	t.Parallel()
	template, err := record(Enough(100, 1), 2, -1).cut(Enough(100, 1))
	if err != nil {
		t.Fatal(err)
	}
	for depth := 4; depth < 40; depth += 3 {
		got, err := template.Write([]int{depth}, Turns{})
		if err != nil {
			t.Fatal(err)
		}
		want := &record(depth, 3, -1).tape
		if len(got.Events) != len(want.Events) || got.Allocs != want.Allocs {
			t.Fatalf("%d layers: %d events, recorded %d", depth, len(got.Events), len(want.Events))
		}
		var now, most units.Bytes
		for i, e := range want.Events {
			if a, b := told(got, got.Events[i]), told(want, e); a != b {
				t.Fatalf("%d layers, event %d: %s, recorded %s", depth, i, a, b)
			}
			now += e.Change()
			most = max(most, now)
		}
		outline, err := template.Outline([]int{depth})
		if err != nil {
			t.Fatal(err)
		}
		if high := outline.Highest(Sketch{}, Instant.Total); high != most {
			t.Errorf("%d layers: the outline's highest is %d, the tape's %d", depth, high, most)
		}
	}
}

func TestLayersOfSeveralKindsInTurnPlayAnyDepth(t *testing.T) {
	t.Parallel()
	for _, period := range []int{2, 3, 6} {
		for depth := 4; depth < 40; depth += 3 {
			n := Enough(depth, period)
			r := recordInTurn(n, 2, 1, period)
			template, err := Cut(Recording{Tape: &r.tape, Layers: r.layers, Made: r.made, Steps: r.steps, Zones: []int{n}, Period: period})
			if err != nil {
				t.Fatal(err)
			}
			got, err := template.Write([]int{depth}, Turns{})
			if err != nil {
				t.Fatal(err)
			}
			want := &recordInTurn(depth, 3, 1, period).tape
			if len(got.Events) != len(want.Events) {
				t.Fatalf("%d layers: %d events, recorded %d", depth, len(got.Events), len(want.Events))
			}
			for i, e := range want.Events {
				if a, b := told(got, got.Events[i]), told(want, e); a != b {
					t.Fatalf("%d layers of period %d, event %d: %s, recorded %s", depth, period, i, a, b)
				}
			}
			if _, err := template.Write([]int{depth + 1}, Turns{}); err == nil {
				t.Errorf("%d layers of period %d were played with one more", depth, period)
			}
		}
	}
}

func TestWhatDoesNotRepeatIsRefused(t *testing.T) {
	t.Parallel()
	n := Enough(100, 1)
	if _, err := record(n, 2, n/2).cut(n); !errors.Is(err, ErrIrregular) {
		t.Errorf("a layer in the middle unlike its neighbour: %v", err)
	}
	if _, err := record(n, 1, -1).cut(n); !errors.Is(err, ErrIrregular) {
		t.Errorf("one step: %v", err)
	}
	template, err := record(n, 2, n/2).cut()
	if err != nil {
		t.Fatalf("a model without layers that are alike plays at its own depth: %v", err)
	}
	if _, err := template.Write([]int{9}, Turns{}); err == nil {
		t.Error("it cannot be stretched")
	}
	if template, err = record(n, 2, -1).cut(n); err != nil {
		t.Fatal(err)
	}
	if _, err := template.Write([]int{1}, Turns{}); err == nil {
		t.Error("fewer layers than both ends have were played")
	}
}
