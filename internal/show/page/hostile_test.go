package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/evidence/recording"
	"github.com/plimsoll/plimsoll/internal/memory/timeline"
	"github.com/plimsoll/plimsoll/internal/show/viewdata"
	"github.com/plimsoll/plimsoll/snapshot"
)

// history draws a snapshot that need not make sense.
func history(t *rapid.T) string {
	actions := []string{"alloc", "alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "segment_unmap", "oom", "strange"}
	frames := []string{`[]`, `[{"name":"f","filename":"train.py","line":3}]`, `[{"name":"</script>","filename":"<b>.py","line":-5},{"name":"f","filename":"train.py","line":3}]`}
	var events []string
	for range rapid.IntRange(0, 60).Draw(t, "n") {
		events = append(events, fmt.Sprintf(`{"action":%q,"addr":%d,"size":%d,"stream":%d,"time_us":%d,"frames":%s}`,
			rapid.SampledFrom(actions).Draw(t, "action"), 512*rapid.IntRange(0, 12).Draw(t, "addr"),
			rapid.SampledFrom([]int64{1, 512, 1 << 20, 1 << 40, 1 << 44}).Draw(t, "size"),
			rapid.IntRange(0, 2).Draw(t, "stream"), rapid.Int64Range(-5, 50).Draw(t, "time"), rapid.SampledFrom(frames).Draw(t, "frames")))
	}
	return `{"segments":[{"device":0,"address":0,"total_size":4096,"stream":0,"segment_type":"small","segment_pool_id":[0,0],"blocks":[{"address":0,"size":4096,"requested_size":1,"state":"active_allocated","frames":[]}]}],"device_traces":[[` +
		strings.Join(events, ",") + "]]}"
}

// everything asks all there is to ask about a snapshot.
func everything(t interface{ Fatalf(string, ...any) }, s *snapshot.Snapshot) {
	var all []Recording
	for _, d := range recording.Devices(s) {
		all = append(all, Recording{Input: "a", Index: viewdata.New(timeline.New(recording.New(s, d), callsite.NewTable(&s.Stacks)))})
	}
	b := NewBook(all)
	for d := range all {
		for _, question := range []string{"curve?by=line&from=-3&to=1e300", "curve?axis=time&from=NaN&to=Inf&columns=7", "curve?by=match&word=f", "alive?at=7", "map?at=7", "map?at=-9", "events?n=-4"} {
			name, query, _ := strings.Cut(question, "?")
			q, _ := url.ParseQuery(query)
			q.Set("d", fmt.Sprint(d))
			v, err := b.Ask(name, q)
			if err != nil {
				t.Fatalf("%s: %v", question, err)
			}
			if _, err := json.Marshal(v); err != nil {
				t.Fatalf("%s: %v", question, err)
			}
		}
	}
	if err := Export(io.Discard, Summary{Kind: Recorded, Report: &report.Explain{}}, b); err != nil {
		t.Fatalf("export: %v", err)
	}
}

func TestNoHistoryIsTooStrangeToShow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, err := snapshot.Read(strings.NewReader(history(t)))
		if err != nil {
			t.Fatalf("well-formed JSON is refused: %v", err)
		}
		everything(t, s)
	})
}

func FuzzShow(f *testing.F) {
	for _, name := range []string{"protocol4.pickle", "cpp.pickle", "v113.pickle"} {
		b, err := os.ReadFile("../../../testdata/formats/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if s, err := snapshot.Read(bytes.NewReader(data)); err == nil {
			everything(t, s)
		}
	})
}
