package replay

import (
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/evidence/recording"
	"github.com/plimsoll/plimsoll/internal/testkit/recordtest"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

func opened(t testing.TB, name string) *Case {
	t.Helper()
	c, err := Open(recording.New(recordtest.Snapshot(t, name), 0), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEveryRecordingIsReproducedExactly(t *testing.T) {
	t.Parallel()
	for _, name := range recordtest.Names(t, "") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := opened(t, name)
			if f := c.Fidelity; !f.Exact() || f.FinalMatches != f.FinalBlocks || f.Allocs == 0 {
				t.Errorf("%+v", f)
			}
			m := recordtest.MeasuredOf(t, name)
			if limit := units.Bytes(m.Cap * float64(units.GiB)); c.Limit.Cap > 0 && c.Limit.Cap != limit {
				t.Errorf("found a cap of %v in [%v, %v), it was %v", c.Limit.Cap, c.Limit.AtLeast, c.Limit.Below, limit)
			}
			if want := units.Bytes(m.Stats["reserved_bytes.all.peak"]); c.Recording.Complete && c.Fidelity.ReservedPeakReplayed != want {
				t.Errorf("reserved peak %v, PyTorch counted %v", c.Fidelity.ReservedPeakReplayed, want)
			}
		})
	}
}

// TestARecordingThatBeginsLateIsReproduced cuts recordings off and replays the rest from the state rebuilt for that
// moment. Ages of cached blocks are not in a file, so that garbage collection alone cannot be reproduced then.
func TestARecordingThatBeginsLateIsReproduced(t *testing.T) {
	t.Parallel()
	for _, name := range recordtest.Names(t, "") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := recordtest.Snapshot(t, name)
			whole, err := Open(recording.New(s, 0), Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, percent := range []int{10, 50, 90} {
				cut := *s
				cut.Traces = []snapshot.Trace{tail(&s.Traces[0], s.Traces[0].Len()*percent/100)}
				c, err := Open(recording.New(&cut, 0), Options{Cap: whole.Limit.Cap})
				if err != nil {
					t.Fatal(err)
				}
				if collects := strings.Contains(name, "gc-capped"); !c.Fidelity.Exact() && !collects {
					t.Errorf("cut at %d %%: %+v", percent, c.Fidelity)
				}
			}
		})
	}
}

// tail is a history without its first events.
func tail(t *snapshot.Trace, from int) snapshot.Trace {
	out := *t
	out.Action, out.Addr, out.Size = t.Action[from:], t.Addr[from:], t.Size[from:]
	out.Stream, out.Stack = t.Stream[from:], t.Stack[from:]
	if t.TimeUS != nil {
		out.TimeUS = t.TimeUS[from:]
	}
	out.Notes = nil
	return out
}
