package fuzz

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/explain"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/holders"
	"github.com/plimsoll/plimsoll/internal/evidence/oomtext"
	"github.com/plimsoll/plimsoll/internal/memory/timeline"
	"github.com/plimsoll/plimsoll/internal/show/screen"
	"github.com/plimsoll/plimsoll/internal/show/textout"
	"github.com/plimsoll/plimsoll/internal/show/traceout"
	"github.com/plimsoll/plimsoll/internal/testkit/hostile"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// sound checks a report as somebody who adds up what it says.
func sound(t *testing.T, r *report.Explain) {
	t.Helper()
	for i := range r.Devices {
		d := &r.Devices[i]
		if a := d.Accounts; a != nil {
			var sum units.Bytes
			for _, account := range a.List {
				if account.Bytes <= 0 {
					t.Fatalf("device %d: an account of %d bytes: %+v", d.Device, account.Bytes, account)
				}
				sum += account.Bytes
			}
			if sum != a.Allocated {
				t.Fatalf("device %d: accounts add up to %d of %d bytes", d.Device, sum, a.Allocated)
			}
		}
		var sum units.Bytes
		for _, bytes := range d.AtPeak.ByCategory {
			sum += bytes
		}
		if sum > d.Peak.Requested || sum < 0 { // the rest was freed, and waited for another stream
			t.Fatalf("device %d: categories add up to %d of %d bytes", d.Device, sum, d.Peak.Requested)
		}
		if d.End.Requested < 0 || d.Peak.Requested < d.End.Requested {
			t.Fatalf("device %d: peak %d, end %d", d.Device, d.Peak.Requested, d.End.Requested)
		}
	}
	for _, f := range r.Findings {
		if f.Title == "" || f.Confidence < 0 || f.Confidence > 1 || f.Bytes < 0 || strings.Contains(f.Title, " 0 B in ") { // a request of 0 B may well be what a message says
			t.Fatalf("a finding of nothing: %+v", f)
		}
		for _, m := range f.Remedies {
			if m.Saves < 0 || m.Action == "" {
				t.Fatalf("a remedy of nothing: %+v", m)
			}
		}
	}
	if err := hostile.CheckJSON(r); err != nil {
		t.Fatal(err)
	}
	for _, width := range []int{60, 80} {
		var out bytes.Buffer
		textout.Explain(screen.New(&out, screen.Style{Width: width}), r)
		if err := hostile.CheckText(out.Bytes()); err != nil {
			t.Fatal(err)
		}
	}
}

// explaining explains recordings that nearly make sense.
func explaining(f fuzzer) {
	whole, held := hostile.New(hostile.Snapshot()), hostile.New([]byte(hostile.Holders))
	hostile.Seed(f, []byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, choices, ofHolders []byte) {
		s, err := snapshot.Read(bytes.NewReader(whole.JSON(hostile.FromBytes(choices))))
		if err != nil {
			return
		}
		e := explain.Evidence{Name: "a", Snapshot: s}
		if len(ofHolders) > 0 {
			e.Holders, _ = holders.Read(bytes.NewReader(held.JSON(hostile.FromBytes(ofHolders))))
		}
		sound(t, explain.Build([]explain.Evidence{e}))
		if len(choices)%8 == 0 {
			handedOver(t, s)
		}
	})
}

// handedOver writes what is handed to other tools.
func handedOver(t *testing.T, s *snapshot.Snapshot) {
	t.Helper()
	for _, c := range explain.Cases(explain.Evidence{Snapshot: s}) {
		for _, write := range []func(io.Writer, *timeline.Timeline) error{traceout.Profile, traceout.Trace, traceout.Folded} {
			if err := write(io.Discard, c.Timeline); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// explainingLogs explains logs that nearly make sense.
func explainingLogs(f fuzzer) {
	hostile.Seed(f)
	f.Fuzz(func(t *testing.T, choices []byte) {
		log, err := oomtext.Read(strings.NewReader(hostile.Text(hostile.Log, hostile.FromBytes(choices))))
		if err != nil {
			t.Fatal(err)
		}
		sound(t, explain.Build([]explain.Evidence{{Name: "log", Messages: log.Messages, Hints: log.Hints}}))
	})
}
