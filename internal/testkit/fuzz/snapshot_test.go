package fuzz

import (
	"bytes"
	"slices"
	"testing"

	"github.com/plimsoll/plimsoll/internal/testkit/hostile"
	"github.com/plimsoll/plimsoll/snapshot"
)

// What snapshot.Read accepts at most.
const (
	devices = 1024
	largest = 1 << 44
)

// relied checks what later packages rely on without asking again.
func relied(t *testing.T, s *snapshot.Snapshot) {
	t.Helper()
	traces := s.Traces
	if s.HostTrace.Len() > 0 {
		traces = append(slices.Clone(traces), s.HostTrace)
	}
	for i := range traces {
		tr := &traces[i]
		n := tr.Len()
		for _, column := range []int{len(tr.Size), len(tr.Stack), len(tr.Stream), len(tr.Addr)} {
			if column != n {
				t.Fatalf("%d events, a column of %d", n, column)
			}
		}
		for k := range n {
			s.Stacks.Stack(tr.Stack[k])
			_ = tr.Streams[tr.Stream[k]]
			if size := tr.Size[k]; size < 0 || size > largest && tr.Action[k] != snapshot.ActionOOM {
				t.Fatalf("event %d (%s) of %d bytes", k, tr.Action[k], size)
			}
		}
		if tr.TimeUS != nil && !slices.IsSorted(tr.TimeUS) {
			t.Fatal("events out of order")
		}
		for _, note := range tr.Notes {
			if int(note.Event) >= n {
				t.Fatalf("a note on event %d of %d", note.Event, n)
			}
		}
	}
	if len(s.Traces) > devices {
		t.Fatalf("%d devices", len(s.Traces))
	}
	for _, segments := range [][]snapshot.Segment{s.Segments, s.HostSegments} {
		for i := range segments {
			g := &segments[i]
			if g.Device < 0 || g.Device >= devices || g.TotalSize < 0 || g.TotalSize > largest {
				t.Fatalf("segment %+v", g)
			}
			for _, b := range g.Blocks {
				if b.Size < 0 || b.Requested < 0 || b.Size > largest {
					t.Fatalf("block %+v", b)
				}
				s.Stacks.Stack(b.Stack)
			}
		}
	}
}

// readingSnapshots reads recordings that nearly make sense: whatever is accepted has what everybody relies on, as JSON and as a pickle.
func readingSnapshots(f fuzzer) {
	whole := hostile.New(hostile.Snapshot())
	for _, plain := range [][]byte{hostile.Snapshot(), whole.Pickled()} {
		s, err := snapshot.Read(bytes.NewReader(plain))
		if err != nil || len(s.Warnings) > 0 {
			f.Fatalf("the recording to begin with: %v %v", err, s)
		}
	}
	hostile.Seed(f)
	f.Fuzz(func(t *testing.T, choices []byte) {
		for _, data := range [][]byte{whole.JSON(hostile.FromBytes(choices)), whole.Pickle(hostile.FromBytes(choices))} {
			if s, err := snapshot.Read(bytes.NewReader(data)); err == nil {
				relied(t, s)
			} else if hostile.CheckText([]byte(err.Error())) != nil {
				t.Fatal(hostile.CheckText([]byte(err.Error())))
			}
		}
	})
}
