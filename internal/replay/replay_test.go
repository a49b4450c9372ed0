package replay

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/recorded"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// recordings were made with PyTorch 2.11.0 on an H200; each has a .json with PyTorch's own counters.
const recordings = "../../testdata/snapshots"

func load(t testing.TB, name string) *snapshot.Snapshot {
	t.Helper()
	f, err := os.Open(filepath.Join(recordings, name+".pickle.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := snapshot.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func opened(t testing.TB, name string) *Case {
	t.Helper()
	c, err := Open(recorded.New(load(t, name), 0), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func names(t testing.TB, prefix string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(recordings, prefix+"*.pickle.gz"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings under %s: %v", recordings, err)
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(filepath.Base(f), ".pickle.gz")
	}
	return files
}

// measured is what PyTorch said of the recorded run.
type measured struct {
	Cap   float64          `json:"cap_gib"`
	Stats map[string]int64 `json:"stats"`
}

func measuredOf(t testing.TB, name string) measured {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(recordings, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var m measured
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestEveryRecordingIsReproducedExactly(t *testing.T) {
	t.Parallel()
	for _, name := range names(t, "") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := opened(t, name)
			if f := c.Fidelity; !f.Exact() || f.FinalMatches != f.FinalBlocks || f.Allocs == 0 {
				t.Errorf("%+v", f)
			}
			m := measuredOf(t, name)
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
	for _, name := range names(t, "") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := load(t, name)
			whole, err := Open(recorded.New(s, 0), Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, percent := range []int{10, 50, 90} {
				cut := *s
				cut.Traces = []snapshot.Trace{tail(&s.Traces[0], s.Traces[0].Len()*percent/100)}
				c, err := Open(recorded.New(&cut, 0), Options{Cap: whole.Limit.Cap})
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
