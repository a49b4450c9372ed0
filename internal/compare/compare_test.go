package compare

import (
	"os"
	"testing"

	"github.com/plimsoll/plimsoll/internal/origin"
	"github.com/plimsoll/plimsoll/internal/recorded"
	"github.com/plimsoll/plimsoll/internal/report"
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

func sum(cs []report.Change) (before, after units.Bytes) {
	for _, c := range cs {
		before += c.Before
		after += c.After
	}
	return before, after
}

func TestChangesAddUpToTheTwoPeaks(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]string{{"mlp-adam", "float64"}, {"gpt2-amp", "gpt2-accumulate"}, {"leak-loss-list", "leak-outputs-cpu-list"}, {"mempool-none-frames", "late-recording"}} {
		d := Timelines(open(t, pair[0]), open(t, pair[1]))
		for name, cs := range map[string][]report.Change{"category": d.ByCategory, "line": d.ByLine} {
			if b, a := sum(cs); b != d.Before.Peak.Requested || a != d.After.Peak.Requested {
				t.Errorf("%v by %s: %s and %s, the peaks are %s and %s", pair, name, b, a, d.Before.Peak.Requested, d.After.Peak.Requested)
			}
		}
	}
}

func TestARunDoesNotDifferFromItself(t *testing.T) {
	t.Parallel()
	a := open(t, "gpt2-amp")
	for _, c := range Timelines(a, a).ByLine {
		if c.Before != c.After || c.WasLine != 0 {
			t.Errorf("%+v", c)
		}
	}
}

func TestALineThatMovedIsFollowed(t *testing.T) {
	t.Parallel()
	place := func(line int) report.Place { return report.Place{File: "train.py", Line: line, Function: "step"} }
	got := match(map[line]report.Amount{{place: place(10)}: {Bytes: 5, Count: 1}}, map[line]report.Amount{{place: place(12)}: {Bytes: 7, Count: 1}})
	if len(got) != 1 || got[0].WasLine != 10 || got[0].Before != 5 || got[0].After != 7 {
		t.Errorf("%+v", got)
	}
}
