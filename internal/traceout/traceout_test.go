package traceout

import (
	"bytes"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/plimsoll/plimsoll/internal/origin"
	"github.com/plimsoll/plimsoll/internal/recorded"
	"github.com/plimsoll/plimsoll/internal/timeline"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

func open(t *testing.T, name string) *timeline.Timeline {
	t.Helper()
	f, err := os.Open("../../testdata/snapshots/" + name + ".pickle.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := snapshot.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return timeline.New(recorded.New(s, 0), origin.NewTable(&s.Stacks))
}

func TestAProfileHoldsThePeak(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"oom-batch", "mlp-adam", "mempool-none-frames"} {
		tl := open(t, name)
		var b bytes.Buffer
		if err := Profile(&b, tl); err != nil {
			t.Fatal(err)
		}
		p, err := profile.Parse(&b)
		if err != nil {
			t.Fatalf("%s: pprof cannot read it: %v", name, err)
		}
		var sum int64
		for _, s := range p.Sample {
			sum += s.Value[1]
		}
		if units.Bytes(sum) != tl.Peak.Requested {
			t.Errorf("%s: samples sum to %d, the peak is %d", name, sum, tl.Peak.Requested)
		}
	}
}

func TestFoldedStacksHoldThePeak(t *testing.T) {
	t.Parallel()
	tl := open(t, "oom-batch")
	var b bytes.Buffer
	if err := Folded(&b, tl); err != nil {
		t.Fatal(err)
	}
	var sum int64
	for line := range strings.Lines(b.String()) {
		cut := strings.LastIndexByte(line, ' ')
		n, err := strconv.ParseInt(strings.TrimSpace(line[cut+1:]), 10, 64)
		if err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		sum += n
	}
	if units.Bytes(sum) != tl.Peak.Requested {
		t.Errorf("stacks sum to %d, the peak is %d", sum, tl.Peak.Requested)
	}
}

func TestATraceShowsPeakStepsAndFailure(t *testing.T) {
	t.Parallel()
	tl := open(t, "leak-oom")
	var b bytes.Buffer
	if err := Trace(&b, tl); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		TraceEvents []struct {
			Name string
			Args map[string]any
		}
	}
	if err := json.Unmarshal(b.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	var peak, steps, failures float64
	for _, e := range doc.TraceEvents {
		if v, ok := e.Args["requested"].(float64); ok {
			peak = max(peak, v)
		}
		if strings.HasPrefix(e.Name, "end of step") {
			steps++
		}
		if strings.HasPrefix(e.Name, "out of memory") {
			failures++
		}
	}
	if units.Bytes(peak) != tl.Peak.Requested || int(steps) != len(tl.Steps) || failures != 1 {
		t.Errorf("peak %v of %d, %v steps of %d, %v failures", peak, tl.Peak.Requested, steps, len(tl.Steps), failures)
	}
}
