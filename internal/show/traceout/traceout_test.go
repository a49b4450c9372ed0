package traceout

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/evidence/recording"
	"github.com/plimsoll/plimsoll/internal/memory/timeline"
	"github.com/plimsoll/plimsoll/internal/testkit/recordtest"
	"github.com/plimsoll/plimsoll/internal/units"
)

func open(t *testing.T, name string) *timeline.Timeline {
	t.Helper()
	s := recordtest.Snapshot(t, name)
	return timeline.New(recording.New(s, 0), callsite.NewTable(&s.Stacks))
}

func TestAProfileHoldsThePeak(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"oom-batch", "mempool-none-frames", "late-recording"} {
		run := open(t, name)
		var out bytes.Buffer
		if err := Profile(&out, run); err != nil {
			t.Fatal(err)
		}
		p, err := profile.Parse(&out)
		if err != nil {
			t.Fatalf("%s: pprof does not read it: %v", name, err)
		}
		var sum units.Bytes
		for _, s := range p.Sample {
			sum += units.Bytes(s.Value[1])
		}
		if sum != run.Peak.Requested {
			t.Errorf("%s: samples add up to %d, the peak is %d", name, sum, run.Peak.Requested)
		}
	}
}

func TestFoldedLinesHoldThePeak(t *testing.T) {
	t.Parallel()
	run := open(t, "oom-batch")
	var out bytes.Buffer
	if err := Folded(&out, run); err != nil {
		t.Fatal(err)
	}
	var sum units.Bytes
	for line := range strings.Lines(out.String()) {
		line = strings.TrimSuffix(line, "\n")
		n, err := strconv.ParseInt(line[strings.LastIndexByte(line, ' ')+1:], 10, 64)
		if err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		sum += units.Bytes(n)
	}
	if sum != run.Peak.Requested {
		t.Errorf("lines add up to %d, the peak is %d", sum, run.Peak.Requested)
	}
	if got := foldedName("a;b\nc"); got != "a_b_c" {
		t.Errorf("a name with separators became %q", got)
	}
}

func TestATraceShowsThePeakAndTheFailure(t *testing.T) {
	t.Parallel()
	run := open(t, "oom-batch")
	var out bytes.Buffer
	if err := Trace(&out, run); err != nil {
		t.Fatal(err)
	}
	var doc struct{ TraceEvents []traceEvent }
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	var used, held float64
	failed := false
	for _, e := range doc.TraceEvents {
		if e.Time < 0 {
			t.Errorf("%s before the beginning", e.Name)
		}
		if b, ok := e.Args["requested"].(float64); ok {
			used = max(used, b)
		}
		if b, ok := e.Args["reserved"].(float64); ok {
			held = max(held, b)
		}
		failed = failed || strings.HasPrefix(e.Name, "out of memory")
	}
	if units.Bytes(used) != run.Peak.Requested || units.Bytes(held) != run.Peak.Reserved || !failed {
		t.Errorf("in use up to %.0f of %d, held up to %.0f of %d, failure shown: %v", used, run.Peak.Requested, held, run.Peak.Reserved, failed)
	}
}

func TestASpeedscopeFileHoldsThePeak(t *testing.T) {
	t.Parallel()
	run := open(t, "oom-batch")
	var out bytes.Buffer
	if err := Speedscope(&out, run); err != nil {
		t.Fatal(err)
	}
	var f speedscopeFile
	if err := json.Unmarshal(out.Bytes(), &f); err != nil {
		t.Fatal(err)
	}
	p := f.Profiles[0]
	var sum int64
	for i, w := range p.Weights {
		sum += w
		for _, frame := range p.Samples[i] {
			if frame >= len(f.Shared.Frames) {
				t.Fatalf("sample %d names frame %d of %d", i, frame, len(f.Shared.Frames))
			}
		}
	}
	if sum != int64(run.Peak.Requested) || p.End != sum {
		t.Errorf("samples add up to %d, the peak is %d", sum, run.Peak.Requested)
	}
}
