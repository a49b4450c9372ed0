package recording

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/testkit/recordtest"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

func TestAddressesBehaveLikeAMap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, want := newAddresses(), map[uint64]uint32{}
		for i := range rapid.IntRange(0, 500).Draw(t, "n") {
			addr := 512 * rapid.Uint64Range(0, 60).Draw(t, "addr")
			switch rapid.IntRange(0, 2).Draw(t, "op") {
			case 0:
				a.put(addr, uint32(i))
				want[addr] = uint32(i)
			case 1:
				got, ok := a.take(addr)
				if w, has := want[addr]; ok != has || ok && got != w {
					t.Fatalf("take(%d) = %d, %v; want %d, %v", addr, got, ok, w, has)
				}
				delete(want, addr)
			case 2:
				if _, has := want[addr]; a.has(addr) != has {
					t.Fatalf("has(%d) is wrong", addr)
				}
			}
			if a.n != len(want) {
				t.Fatalf("%d entries, want %d", a.n, len(want))
			}
		}
	})
}

// Where the history begins late, what was alive before it and all later events must end in the final segments.
func TestEveryRecordingEndsInItsFinalSegments(t *testing.T) {
	t.Parallel()
	for _, name := range recordtest.Names(t, "") {
		s := recordtest.Snapshot(t, name)
		r := New(s, 0)
		if r.Contradictions != 0 {
			t.Errorf("%s: %d contradictions", name, r.Contradictions)
		}
		checkEnd(t, name, s, r)
		if late := strings.HasPrefix(name, "late-"); r.Complete == late {
			t.Errorf("%s: complete is %v", name, r.Complete)
		}
	}
}

// checkEnd compares what is alive at the end of the tape with the active blocks of the segments, address by address.
func checkEnd(t *testing.T, name string, s *snapshot.Snapshot, r *Recording) {
	t.Helper()
	alive := map[uint64]units.Bytes{}
	completed := map[uint32]bool{}
	for _, e := range r.Tape.Events {
		if e.Kind == tape.FreeCompleted {
			completed[e.ID] = true
		}
	}
	for id := range r.Died {
		dead := r.Died[id] != NeverFreed && (!r.Tape.Events[r.Died[id]].Deferred || completed[uint32(id)])
		if !dead {
			alive[r.Addr[id]] += size(r, id)
		}
	}
	blocks := 0
	for _, seg := range s.Segments {
		for _, b := range seg.Blocks {
			if b.State == snapshot.Inactive {
				continue
			}
			blocks++
			if alive[b.Address] != units.Bytes(b.Requested) {
				t.Errorf("%s: block at %#x holds %d requested bytes, the tape %d", name, b.Address, b.Requested, alive[b.Address])
			}
		}
	}
	if blocks != len(alive) {
		t.Errorf("%s: %d active blocks, %d allocations alive at the end of the tape", name, blocks, len(alive))
	}
}

func size(r *Recording, id int) units.Bytes {
	if id < len(r.Tape.Initial) {
		return r.Tape.Initial[id].Size
	}
	return r.Tape.Events[r.Born[id]].Size
}

// Cutting the beginning off a recording must leave the same allocations alive at every later event.
func TestACutHistoryFindsWhatWasAliveBeforeIt(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"gpt2-amp", "cudagraph", "leak-loss-list", "alloc-mixed-expandable"} {
		whole := recordtest.Snapshot(t, name)
		full := New(whole, 0)
		n := full.Trace.Len()
		for _, at := range []int{n / 10, n / 2, 9 * n / 10} {
			cut := *whole
			tr := whole.Traces[0]
			tr.Action, tr.Addr, tr.Size, tr.Stream, tr.Stack = tr.Action[at:], tr.Addr[at:], tr.Size[at:], tr.Stream[at:], tr.Stack[at:]
			tr.TimeUS = tr.TimeUS[at:]
			cut.Traces = []snapshot.Trace{tr}
			part := New(&cut, 0)
			var before units.Bytes
			for _, l := range part.Tape.Initial {
				before += l.Size
			}
			if want := inUse(full, at); before != want {
				t.Errorf("%s cut at %d: %s alive before it, want %s", name, at, before, want)
			}
			if part.Contradictions != 0 {
				t.Errorf("%s cut at %d: %d contradictions", name, at, part.Contradictions)
			}
		}
	}
}

// inUse is what is requested just before a trace event.
func inUse(r *Recording, at int) units.Bytes {
	var now units.Bytes
	for i, e := range r.Tape.Events {
		if int(r.Event[i]) >= at {
			break
		}
		switch {
		case e.Kind == tape.Alloc:
			now += e.Size
		case e.Kind == tape.FreeCompleted:
			now -= e.Size
		case e.Kind == tape.Free && !e.Deferred:
			now -= e.Size
		}
	}
	// A cut between free_requested and free_completed leaves the block alive.
	if at > 0 && r.Trace.Action[at-1] == snapshot.ActionFreeRequested && r.Trace.Action[at] == snapshot.ActionFreeCompleted && r.Trace.Addr[at] == r.Trace.Addr[at-1] {
		now += units.Bytes(r.Trace.Size[at])
	}
	return now
}
