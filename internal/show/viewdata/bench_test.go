package viewdata

import (
	"testing"

	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/evidence/recording"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/memory/timeline"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// long is a timeline of ten million events: steps of a thousand allocations that are freed in turn.
func long() *timeline.Timeline {
	const events, window = 10_000_000, 1000
	r := &recording.Recording{Snapshot: &snapshot.Snapshot{}, Trace: &snapshot.Trace{}}
	r.Tape.Streams = []uint64{0}
	for i := range events {
		e := tape.Event{Kind: tape.Alloc, ID: uint32(len(r.Died)), Size: units.Bytes(512 * (1 + i%997))}
		if i%(2*window) >= window {
			e = tape.Event{Kind: tape.Free, ID: uint32(len(r.Died) - window + i%window), Size: units.Bytes(512 * (1 + (i-window)%997))}
			r.Died[e.ID] = uint32(i)
		} else {
			r.Born = append(r.Born, uint32(i))
			r.Died = append(r.Died, recording.NeverFreed)
		}
		r.Tape.Events = append(r.Tape.Events, e)
	}
	n := len(r.Died)
	r.Stack, r.Addr = make([]snapshot.StackID, n), make([]uint64, n)
	r.Event = make([]uint32, events)
	for i := range r.Event {
		r.Event[i] = uint32(i)
	}
	r.Trace.Action = make([]snapshot.Action, events)
	t := &timeline.Timeline{Recording: r, Origins: callsite.NewTable(&snapshot.Stacks{}), Category: make([]tape.Category, n), Phase: make([]callsite.Phase, n)}
	for i := range t.Category {
		t.Category[i] = tape.Category(i % tape.Categories)
	}
	return t
}

func BenchmarkTenMillionEvents(b *testing.B) {
	x := New(long())
	g := x.Group(ByCategory, "")
	b.Run("group", func(b *testing.B) {
		for b.Loop() {
			x.Group(ByCategory, "")
		}
	})
	b.Run("whole", func(b *testing.B) {
		for b.Loop() {
			x.Curve(g, Span{Columns: 1600})
		}
	})
	b.Run("half", func(b *testing.B) {
		for b.Loop() {
			x.Curve(g, Span{From: 2_500_000, To: 7_500_000, Columns: 1600})
		}
	})
	b.Run("instant", func(b *testing.B) {
		for b.Loop() {
			x.Alive(9_000_321, Full())
		}
	})
}
