package fuzz

import (
	"bytes"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/compare"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/evidence/recording"
	"github.com/plimsoll/plimsoll/internal/memory/timeline"
	"github.com/plimsoll/plimsoll/internal/testkit/hostile"
	"github.com/plimsoll/plimsoll/snapshot"
)

// comparing compares a recording with one that nearly makes sense: neither order loses bytes.
func comparing(f fuzzer) {
	whole := hostile.New(hostile.Snapshot())
	told := func(s *snapshot.Snapshot, d int) *timeline.Timeline {
		return timeline.New(recording.New(s, d), callsite.NewTable(&s.Stacks))
	}
	s, err := snapshot.Read(bytes.NewReader(hostile.Snapshot()))
	if err != nil {
		f.Fatal(err)
	}
	base := told(s, 0)
	hostile.Seed(f)
	f.Fuzz(func(t *testing.T, choices []byte) {
		s, err := snapshot.Read(bytes.NewReader(whole.JSON(hostile.FromBytes(choices))))
		if err != nil {
			return
		}
		for _, d := range recording.Devices(s) {
			other := told(s, d)
			there, back := compare.Timelines(base, other), compare.Timelines(other, base)
			if total(there.ByCategory) != -total(back.ByCategory) || total(there.ByLine) != -total(back.ByLine) {
				t.Fatalf("%+v and back %+v", there, back)
			}
			if err := hostile.CheckJSON(there); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func total(changes []report.Change) (sum int64) {
	for _, c := range changes {
		sum += int64(c.After - c.Before)
	}
	return sum
}
