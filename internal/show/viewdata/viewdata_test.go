package viewdata

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/evidence/recording"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/memory/timeline"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

func open(t testing.TB, name string) *Index {
	t.Helper()
	f, err := os.Open(filepath.Join("../../../testdata/snapshots", name+".pickle.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := snapshot.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return New(timeline.New(recording.New(s, 0), callsite.NewTable(&s.Stacks)))
}

func names(t testing.TB) []string {
	t.Helper()
	files, _ := filepath.Glob("../../../testdata/snapshots/*.pickle.gz")
	if len(files) == 0 {
		t.Fatal("no recordings in testdata")
	}
	var out []string
	for _, f := range files {
		out = append(out, strings.TrimSuffix(filepath.Base(f), ".pickle.gz"))
	}
	return out
}

// plain computes a column the slow way: every event from the first.
func plain(g *Grouping, a, b int) (top []int64, low, high int64) {
	now := append([]int64{}, g.start...)
	for i := range a {
		g.apply(now, i)
	}
	low, high, top = sum(now), sum(now), append([]int64{}, now...)
	for i := a; i < b; i++ {
		g.apply(now, i)
		if total := sum(now); i == a || total > high {
			high, top = total, append([]int64{}, now...)
		}
		if total := sum(now); i == a || total < low {
			low = total
		}
	}
	return top, low, high
}

func TestAColumnShowsItsHighestInstantAndItsLowestTotal(t *testing.T) {
	t.Parallel()
	x := open(t, "alloc-mixed-default")
	groups := []*Grouping{x.Group(ByCategory, ""), x.Group(ByLine, ""), x.Group(ByPhase, ""), x.Group(Match, "train")}
	rapid.Check(t, func(t *rapid.T) {
		g := rapid.SampledFrom(groups).Draw(t, "grouping")
		from := rapid.IntRange(0, x.Events()-1).Draw(t, "from")
		to := rapid.IntRange(from+1, x.Events()).Draw(t, "to")
		s := Span{From: float64(from), To: float64(to), Columns: rapid.IntRange(1, 40).Draw(t, "columns")}
		c := x.Curve(g, s)
		_, bounds := x.bounds(s)
		i := rapid.IntRange(0, c.Columns-1).Draw(t, "column")
		top, low, high := plain(g, x.tapeFrom(bounds[i]), x.tapeFrom(bounds[i+1]))
		if c.Low[i] != low || c.High[i] != high {
			t.Fatalf("column %d of %+v: %d … %d, want %d … %d", i, s, c.Low[i], c.High[i], low, high)
		}
		for b := range top {
			if c.Bands[b][i] != top[b] {
				t.Fatalf("band %s: %d, want %d", g.Bands[b], c.Bands[b][i], top[b])
			}
		}
	})
}

func TestThePeakOfTheCurveIsThePeakOfTheTimeline(t *testing.T) {
	t.Parallel()
	for _, name := range names(t) {
		x := open(t, name)
		g := x.Group(ByCategory, "")
		for _, s := range []Span{{Columns: 900}, {Columns: 900, ByTime: true}} {
			c := x.Curve(g, s)
			high, reserved, at := int64(0), units.Bytes(0), 0
			for i := range c.Columns {
				if c.High[i] > high {
					high, at = c.High[i], i
				}
				reserved = max(reserved, c.Reserved[i])
			}
			if units.Bytes(high) != x.T.Peak.Requested || reserved != x.T.Peak.Reserved {
				t.Errorf("%s: curve reaches %d and %d, timeline %d and %d", name, high, reserved, x.T.Peak.Requested, x.T.Peak.Reserved)
			}
			for category, want := range x.T.ByCategory(x.T.Peak.Event) {
				if got := c.Bands[category][at]; units.Bytes(got) != want {
					t.Errorf("%s: %s at the peak %d, want %d", name, tape.Category(category), got, want)
				}
			}
		}
	}
}

func TestWhatIsAliveAddsUpEverywhere(t *testing.T) {
	t.Parallel()
	for _, name := range names(t) {
		x := open(t, name)
		for _, at := range []int{-1, x.PeakEvent(), x.Events() / 3, x.Events() - 1} {
			a := x.Alive(at, Full())
			if want := x.T.RequestedAt(x.tapeFrom(at+1) - 1); a.InUse != want || a.Flame.Bytes != want {
				t.Errorf("%s at %d: %d alive, flame of %d, want %d", name, at, a.InUse, a.Flame.Bytes, want)
			}
			if want := heldAt(x, at); a.Reserved != want {
				t.Errorf("%s at %d: %d held, want %d", name, at, a.Reserved, want)
			}
			checkFlame(t, name, &a.Flame)
		}
	}
}

// heldAt counts what is held the slow way.
func heldAt(x *Index, event int) units.Bytes {
	held := x.T.Reserved
	for i := range event + 1 {
		switch x.T.Trace.Action[i] {
		case snapshot.ActionSegmentAlloc, snapshot.ActionSegmentMap:
			held += units.Bytes(x.T.Trace.Size[i])
		case snapshot.ActionSegmentFree, snapshot.ActionSegmentUnmap:
			held -= units.Bytes(x.T.Trace.Size[i])
		}
	}
	return held
}

func checkFlame(t *testing.T, name string, n *Node) {
	t.Helper()
	var children units.Bytes
	for i := range n.Children {
		children += n.Children[i].Bytes
		checkFlame(t, name, &n.Children[i])
	}
	if children > n.Bytes {
		t.Errorf("%s: children of a frame hold %d, the frame %d", name, children, n.Bytes)
	}
}

func TestTheMapHoldsWhatIsReservedAndEverythingAliveLiesInIt(t *testing.T) {
	t.Parallel()
	for _, name := range names(t) {
		x := open(t, name)
		for _, at := range []int{-1, x.PeakEvent(), x.Events() / 3, x.Events() / 2, x.Events() - 1} {
			m := x.Map(at, 1<<20)
			var held units.Bytes
			for _, s := range m.Segments {
				held += s.Size
				if s.Used > s.Size {
					t.Errorf("%s at %d: segment %s of %d holds %d", name, at, s.Address, s.Size, s.Used)
				}
			}
			if want := heldAt(x, at); held != want {
				t.Errorf("%s at %d: map of %v, %v held", name, at, held, want)
			}
			if alive := x.T.RequestedAt(x.tapeFrom(at+1) - 1); m.Used != alive {
				t.Errorf("%s at %d: %v in the map, %v alive", name, at, m.Used, alive)
			}
		}
	}
}

func TestAtTheEndTheMapIsTheSnapshotsSegments(t *testing.T) {
	t.Parallel()
	x := open(t, "alloc-varlen-default-capped")
	m := x.Map(x.Events()-1, 1<<20)
	if len(m.Segments) != len(x.T.Snapshot.Segments) {
		t.Errorf("%d segments, want %d", len(m.Segments), len(x.T.Snapshot.Segments))
	}
	if failed := x.Map(x.Overview("").Failures[0].Event, 1<<20); failed.Pinned == 0 {
		t.Error("the recording of fragmentation has nothing pinned")
	}
}

func TestAWordIsFoundInFilesAndFunctions(t *testing.T) {
	t.Parallel()
	x := open(t, "leak-loss-list")
	c := x.Curve(x.Group(Match, "LEAK"), Span{Columns: 1})
	if found, rest := c.Bands[1][0], c.Bands[0][0]; found == 0 || rest == 0 {
		t.Errorf("found %d, rest %d", found, rest)
	}
	if c := x.Curve(x.Group(Match, "no such name"), Span{Columns: 1}); c.Bands[1][0] != 0 {
		t.Errorf("found %d of what is not there", c.Bands[1][0])
	}
}

func TestAnAllocationHasALife(t *testing.T) {
	t.Parallel()
	x := open(t, "leak-loss-list")
	row := x.Alive(x.PeakEvent(), Full()).Rows[0]
	a, err := x.Allocation(int(row.Largest[0]))
	if err != nil {
		t.Fatal(err)
	}
	if a.Born == nil || len(a.Frames) == 0 || a.Bytes == 0 || a.Alike < 1 {
		t.Errorf("%+v", a)
	}
	events := x.List(a.Born.Event, 1)
	if len(events) != 1 || events[0].Kind != "alloc" || events[0].ID != int(a.ID) || events[0].Bytes != a.Bytes {
		t.Errorf("born at %+v", events)
	}
	if _, err := x.Allocation(len(x.T.Died)); err == nil {
		t.Error("an allocation that does not exist was described")
	}
}

func TestQuestionsBeyondTheRecordingAreAnswered(t *testing.T) {
	t.Parallel()
	empty := New(timeline.New(recording.New(&snapshot.Snapshot{}, 0), callsite.NewTable(&snapshot.Stacks{})))
	for _, x := range []*Index{empty, open(t, "oom-model-load")} {
		for _, by := range []By{ByCategory, ByLine, ByPhase, Match, "nonsense"} {
			g := x.Group(by, "")
			for _, s := range []Span{{From: -9e18, To: 9e18, Columns: 1 << 30}, {From: 5, To: 2}, {From: 1e9, To: 2e9, Columns: -3, ByTime: true}} {
				x.Curve(g, s)
			}
		}
		for _, at := range []int{-7, 1 << 40} {
			x.Alive(at, Full())
			x.Map(at, 10)
			x.List(at, 1<<30)
		}
		x.Overview("")
	}
}
