package explain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/internal/show/screen"
	"github.com/plimsoll/plimsoll/internal/show/textout"
	"github.com/plimsoll/plimsoll/internal/show/traceout"
	"github.com/plimsoll/plimsoll/snapshot"
)

// history draws a snapshot that need not make sense: frees of nothing, allocations at live addresses, sizes of any sign,
// failures anywhere.
func history(t *rapid.T) string {
	actions := []string{"alloc", "alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "segment_unmap", "oom", "snapshot", "strange"}
	frames := []string{
		`[]`, `[{"name":"f","filename":"train.py","line":3}]`,
		`[{"name":"step","filename":"/x/site-packages/torch/optim/adam.py","line":9},{"name":"main","filename":"train.py","line":7}]`,
		`[{"name":"_call_impl","filename":"/x/site-packages/torch/nn/modules/module.py","line":1},{"name":"evaluate","filename":"train.py","line":8}]`,
		`[{"name":"<script>alert(1)</script>","filename":"\u001b[31m.py","line":-5}]`,
	}
	var events []string
	for i := range rapid.IntRange(0, 60).Draw(t, "n") {
		events = append(events, fmt.Sprintf(`{"action":%q,"addr":%d,"size":%d,"stream":%d,"time_us":%d,"frames":%s}`,
			rapid.SampledFrom(actions).Draw(t, "action"), 512*rapid.IntRange(0, 12).Draw(t, "addr"),
			rapid.SampledFrom([]int64{1, 512, 1 << 20, 33554432, 1 << 40, 1 << 44}).Draw(t, "size"),
			rapid.IntRange(0, 2).Draw(t, "stream"), i, rapid.SampledFrom(frames).Draw(t, "frames")))
	}
	out := `{"segments":[{"device":0,"address":0,"total_size":4096,"stream":0,"segment_type":"small","segment_pool_id":[0,0],"blocks":[{"address":0,"size":4096,"requested_size":1,"state":"active_allocated","frames":[]}]}],"external_annotations":[{"stage":"END","name":"Optimizer.step#A","device":0,"time_us":5},{"stage":"END","name":"Optimizer.step#A","device":0,"time_us":15}],"device_traces":[[`
	for i, e := range events {
		if i > 0 {
			out += ","
		}
		out += e
	}
	return out + "]]}"
}

func TestNoHistoryIsTooStrangeToExplain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, err := snapshot.Read(bytes.NewReader([]byte(history(t))))
		if err != nil {
			t.Fatalf("well-formed JSON is refused: %v", err)
		}
		everything(t, s)
	})
}

// everything runs all there is on a snapshot; it must come back, and print nothing that steers a terminal.
func everything(t interface{ Fatalf(string, ...any) }, s *snapshot.Snapshot) {
	r := Build([]Evidence{{Name: "a", Snapshot: s}, {Name: "b", Snapshot: s}})
	if _, err := json.Marshal(r); err != nil {
		t.Fatalf("the report is no JSON: %v", err)
	}
	var out bytes.Buffer
	textout.Explain(screen.New(&out, screen.Style{}), r)
	if bytes.ContainsRune(out.Bytes(), '\x1b') {
		t.Fatalf("an escape from the file reaches the terminal: %q", out.String())
	}
	for _, c := range Cases(Evidence{Snapshot: s}) {
		out.Reset()
		if err := traceout.Profile(&out, c.Timeline); err != nil {
			t.Fatalf("profile: %v", err)
		}
		if err := traceout.Trace(&out, c.Timeline); err != nil {
			t.Fatalf("trace: %v", err)
		}
		if err := traceout.Folded(&out, c.Timeline); err != nil {
			t.Fatalf("folded: %v", err)
		}
	}
}

func FuzzExplain(f *testing.F) {
	for _, name := range []string{"protocol4.pickle", "cpp.pickle", "v113.pickle"} {
		b, err := os.ReadFile("../../../testdata/formats/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := snapshot.Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		everything(t, s)
	})
}

func TestMoreInUseThanHeldIsCalledAContradiction(t *testing.T) {
	t.Parallel()
	s, err := snapshot.Read(bytes.NewReader([]byte(`{"segments":[],"device_traces":[[{"action":"segment_alloc","addr":512,"size":2097152,"stream":0},
		{"action":"alloc","addr":7777,"size":1073741824,"stream":0},{"action":"alloc","addr":999,"size":1073741824,"stream":0}]]}`)))
	if err != nil {
		t.Fatal(err)
	}
	r := Build([]Evidence{{Name: "a", Snapshot: s}})
	if !slices.ContainsFunc(r.Notes, func(n string) bool { return strings.Contains(n, "contradicts itself") }) {
		t.Errorf("notes %q", r.Notes)
	}
}
