package traced

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/units"
)

func written(events ...[4]int64) *bytes.Buffer {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_ = binary.Write(z, binary.LittleEndian, events)
	_ = z.Close()
	return &b
}

const header = `{"schema":"plimsoll.trace/1","ended":"end","moments":[{"step":1,"phase":"forward"},{"step":1,"phase":"backward"}],
	"owners":[{"category":"parameters"},{"category":"activations","depends":true}],
	"works":[{"op":"addmm"},{"op":"convolution","dtype":"float32","x":[2,64,32,32],"w":[64,64,3,3],"y":[2,64,32,32],"stride":[1,1],"padding":[1,1],"dilation":[1,1],"groups":1}]}`

func TestATapeHasWhatTheTraceSawAndWhatLibrariesTake(t *testing.T) {
	t.Parallel()
	trace, err := Read(strings.NewReader(header), written([4]int64{marked, 0}, [4]int64{began, 0, 1000, 0}, [4]int64{worked, 0}, [4]int64{worked, 0},
		[4]int64{began, 1, 500, 1}, [4]int64{worked, 1}, [4]int64{ended, 1}, [4]int64{marked, 1}, [4]int64{worked, 0}))
	if err != nil {
		t.Fatal(err)
	}
	d := eager.H200()
	total := func(least bool) (sum units.Bytes) {
		for _, e := range trace.Tape(NewLibrary(d, nil), least).Events {
			if e.Kind == tape.Alloc {
				sum += e.Size
			}
		}
		return sum
	}
	conv := (2*64*32*32*2 + 64*64*9) * 4 // copies of input, output and weight, or of two of them
	kept := 1000 + 2*(d.BlasWorkspace+d.BlasLtWorkspace)
	if got := total(false) - kept - 500; got <= 0 || got > units.Bytes(conv) {
		t.Errorf("the convolution's workspace is %d, at most %d", got, conv)
	}
	if a, b := total(false), total(true); a-b != 500 {
		t.Errorf("without what depends on data %d, with it %d: they differ by 500", b, a)
	}
	if !trace.Bounded() || !trace.Followed() {
		t.Error("the trace saw a size that depends on data, and the end of the script")
	}
	if trace.Ended = AtLimit; trace.Followed() {
		t.Error("a trace that the time limit ended before the first step says nothing of the peak")
	}
}

func TestTracesThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	for name, events := range map[string]*bytes.Buffer{
		"ends before it begins":   written([4]int64{ended, 0}),
		"ends twice":              written([4]int64{began, 0, 10, 0}, [4]int64{ended, 0}, [4]int64{ended, 0}),
		"out of order":            written([4]int64{began, 3, 10, 0}),
		"an owner there is not":   written([4]int64{began, 0, 10, 7}),
		"larger than any machine": written([4]int64{began, 0, 1 << 60, 0}),
		"an unknown kind":         written([4]int64{9}),
		"cut off":                 bytes.NewBuffer(written([4]int64{began, 0, 10, 0}).Bytes()[:20]),
	} {
		if _, err := Read(strings.NewReader(header), events); err == nil {
			t.Errorf("%s: read without an error", name)
		}
	}
	if _, err := Read(strings.NewReader(`{"schema":"other"}`), written()); err == nil {
		t.Error("another schema is read without an error")
	}
}

func TestEveryAllocationIsFreedAtMostOnceAndKeepsItsSize(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var events [][4]int64
		var alive []int64
		for range rapid.IntRange(0, 60).Draw(t, "events") {
			if len(alive) > 0 && rapid.Bool().Draw(t, "free") {
				i := rapid.IntRange(0, len(alive)-1).Draw(t, "which")
				events = append(events, [4]int64{ended, alive[i]})
				alive = append(alive[:i], alive[i+1:]...)
				continue
			}
			n := int64(0)
			for _, e := range events {
				if e[0] == began {
					n++
				}
			}
			events = append(events, [4]int64{began, n, rapid.Int64Range(1, 1<<30).Draw(t, "size"), rapid.Int64Range(0, 1).Draw(t, "owner")})
			alive = append(alive, n)
		}
		trace, err := Read(strings.NewReader(header), written(events...))
		if err != nil {
			t.Fatal(err)
		}
		for _, least := range []bool{false, true} {
			sizes := map[uint32]units.Bytes{}
			for _, e := range trace.Tape(NewLibrary(eager.H200(), nil), least).Events {
				switch {
				case e.Kind == tape.Alloc:
					sizes[e.ID] = e.Size
				case e.Kind == tape.Free && sizes[e.ID] != e.Size:
					t.Fatalf("allocation %d of %d bytes gives up %d", e.ID, sizes[e.ID], e.Size)
				case e.Kind == tape.Free:
					delete(sizes, e.ID)
				}
			}
		}
	})
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(header), written([4]int64{began, 0, 10, 0}, [4]int64{worked, 1}, [4]int64{ended, 0}).Bytes())
	f.Fuzz(func(t *testing.T, head, events []byte) {
		trace, err := Read(bytes.NewReader(head), bytes.NewReader(events))
		if err != nil {
			return
		}
		for i := range trace.Works {
			if data, _ := json.Marshal(trace.Works[i]); len(data) > 1<<12 {
				return
			}
		}
		trace.Tape(NewLibrary(eager.H200(), nil), true)
	})
}

func TestWhatLaterStepsRunBeside(t *testing.T) {
	t.Parallel()
	text := `{"schema":"plimsoll.trace/1","ended":"time","steps":1,"moments":[{"step":1,"phase":"forward"},{"step":1,"phase":"optimizer"},{"step":2,"phase":"other"}],
		"owners":[{"category":"parameters"},{"category":"gradients"},{"category":"optimizer"}]}`
	// Parameters of 1000; a forward pass; gradients of 1000 and state of 2000, which stay, and 300 that do not.
	trace, err := Read(strings.NewReader(text), written([4]int64{began, 0, 1000, 0}, [4]int64{marked, 0}, [4]int64{began, 1, 1000, 1}, [4]int64{marked, 1},
		[4]int64{began, 2, 2000, 2}, [4]int64{began, 3, 300, 2}, [4]int64{ended, 3}, [4]int64{marked, 2}))
	if err != nil {
		t.Fatal(err)
	}
	if state, all := trace.Later(); state != 2000 || all != 3000 {
		t.Errorf("state %d, in all %d; want 2000 and 3000", state, all)
	}
}

func TestTrialsAreTakenOnce(t *testing.T) {
	t.Parallel()
	tried := strings.Replace(header, `"groups":1}`, `"groups":1,"benchmark":true}`, 1)
	trace, err := Read(strings.NewReader(tried), written([4]int64{worked, 1}, [4]int64{worked, 1}, [4]int64{worked, 1}))
	if err != nil {
		t.Fatal(err)
	}
	sizes := func(l Library) (out []units.Bytes) {
		for _, e := range trace.Tape(l, false).Events {
			if e.Kind == tape.Alloc {
				if out = append(out, e.Size); !e.Elastic {
					t.Error("a workspace of cuDNN's is not elastic")
				}
			}
		}
		return out
	}
	with, without := sizes(NewLibrary(eager.H200(), nil)), sizes(NewLibrary(eager.H200(), nil).Settled())
	if !trace.Benchmark() || len(with) < 1 || len(with) < len(without) {
		t.Errorf("with trials %v, without %v", with, without)
	}
	if n := len(without); n == 3 && (with[len(with)-1] != without[2] || without[0] != without[2]) {
		t.Errorf("what was chosen changes: %v, %v", with, without)
	}
}
