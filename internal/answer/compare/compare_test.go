package compare

import (
	"reflect"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/evidence/recording"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/memory/timeline"
	"github.com/plimsoll/plimsoll/internal/testkit/recordtest"
	"github.com/plimsoll/plimsoll/internal/units"
)

func open(t *testing.T, name string) *timeline.Timeline {
	t.Helper()
	s := recordtest.Snapshot(t, name)
	return timeline.New(recording.New(s, 0), callsite.NewTable(&s.Stacks))
}

func TestARunComparedWithItselfHasNotChanged(t *testing.T) {
	t.Parallel()
	run := open(t, "mlp-adam")
	for _, c := range Timelines(run, run).ByLine {
		if c.Before != c.After || c.CountBefore != c.CountAfter || c.WasLine != 0 {
			t.Errorf("%+v", c)
		}
	}
}

func TestChangesAddUpToBothPeaks(t *testing.T) {
	t.Parallel()
	d := Timelines(open(t, "oom-batch"), open(t, "leak-oom"))
	for what, changes := range map[string][]report.Change{"categories": d.ByCategory, "lines": d.ByLine} {
		var before, after units.Bytes
		for _, c := range changes {
			before += c.Before
			after += c.After
		}
		if before != d.Before.Peak.Requested || after != d.After.Peak.Requested {
			t.Errorf("%s add up to %d and %d, the peaks are %d and %d", what, before, after, d.Before.Peak.Requested, d.After.Peak.Requested)
		}
	}
}

func TestTheOrderOfChangesIsAlwaysTheSame(t *testing.T) {
	t.Parallel()
	a, b := open(t, "oom-batch"), open(t, "gpt2-amp")
	first := Timelines(a, b)
	for range 20 {
		if !reflect.DeepEqual(first, Timelines(a, b)) {
			t.Fatal("two comparisons of the same runs differ")
		}
	}
}

func TestALineThatMovedInsideItsFunctionIsTheSameLine(t *testing.T) {
	t.Parallel()
	at := func(n int) line {
		return line{place: report.Place{File: "train.py", Line: n, Function: "step"}, category: tape.Activations}
	}
	moved := match(map[line]report.Amount{at(10): {Bytes: 5, Count: 1}}, map[line]report.Amount{at(12): {Bytes: 9, Count: 2}})
	if len(moved) != 1 || moved[0].WasLine != 10 || moved[0].Where.Line != 12 || moved[0].Before != 5 || moved[0].After != 9 {
		t.Errorf("%+v", moved)
	}
}
