package predict

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/model/traced"
	"github.com/plimsoll/plimsoll/internal/torch"
)

// What was not reached is not bounded: the peak is what is needed at least, and whether the run fits is not known, unless what was seen does not.
func TestAPartOfAScriptIsNoBound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		trace   traced.Trace
		verdict report.Verdict
		why     string
	}{
		{"all of it", traced.Trace{Ended: traced.AtEnd, Steps: 3}, report.Fits, ""},
		{"loaders repeat", traced.Trace{Ended: traced.Repeats, Steps: 3}, report.Fits, ""},
		{"steps repeat", traced.Trace{Ended: traced.Repeats, Why: traced.RepeatedLoop, Steps: 41}, report.Fits, "41 optimizer steps, which repeat"},
		{"time", traced.Trace{Ended: traced.AtLimit, Steps: 1, File: "x/main.py", Line: 9}, report.Unknown, "1 optimizer step, until the time limit at main.py:9"},
		{"no step", traced.Trace{Ended: traced.AtLimit}, report.Unknown, "no optimizer step"},
		{"failed", traced.Trace{Ended: traced.Failed, Steps: 2, Why: "KeyError"}, report.Unknown, "KeyError"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			res, err := Followed(oneTensor(t, c.trace), "main.py", h200(t))
			if err != nil {
				t.Fatal(err)
			}
			r := res.Report
			if r.Verdict != c.verdict || r.Fits != c.verdict.Runs() || !strings.Contains(r.AtLeast, c.why) || (r.AtLeast == "") != (c.why == "") {
				t.Errorf("%s, fits %t, at least: %q; want %s, %q", r.Verdict, r.Fits, r.AtLeast, c.verdict, c.why)
			}
		})
	}
}

func TestAScriptThatAllocatesNothingIsAnswered(t *testing.T) {
	t.Parallel()
	for _, events := range [][][4]int64{nil, {{2, 0, 0, 0}}} {
		trace := traceWith(t, traced.Trace{Ended: traced.AtEnd}, events)
		res, err := Followed(trace, "main.py", h200(t))
		if err != nil {
			t.Fatal(err)
		}
		if r := res.Report; r.Peak.Allocated != 0 || r.Where != "" {
			t.Errorf("%d events: %v allocated at %q", len(events), r.Peak.Allocated, r.Where)
		}
	}
}

// oneTensor is a trace in which one tensor of a mebibyte went to the card.
func oneTensor(t *testing.T, trace traced.Trace) *traced.Trace {
	t.Helper()
	return traceWith(t, trace, [][4]int64{{2, 0, 0, 0}, {0, 0, 1 << 20, 0}})
}

func traceWith(t *testing.T, trace traced.Trace, all [][4]int64) *traced.Trace {
	t.Helper()
	trace.Schema, trace.Owners, trace.Moments = traced.Schema, []traced.Owner{{Category: "other"}}, []traced.Moment{{Step: 1, Phase: torch.PhaseForward}}
	header, err := json.Marshal(trace)
	if err != nil {
		t.Fatal(err)
	}
	return readTrace(t, header, all)
}

// readTrace is the trace of a header and its events.
func readTrace(t *testing.T, header []byte, all [][4]int64) *traced.Trace {
	t.Helper()
	var events bytes.Buffer
	w := gzip.NewWriter(&events)
	for _, e := range all {
		if err := binary.Write(w, binary.LittleEndian, e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	out, err := traced.Read(bytes.NewReader(header), &events)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
