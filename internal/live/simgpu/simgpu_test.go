package simgpu

import (
	"context"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/internal/live/watch"
	"github.com/plimsoll/plimsoll/internal/units"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func read(t *testing.T, m *Machine, at float64) watch.Reading {
	t.Helper()
	r, err := m.Read(context.Background(), start.Add(time.Duration(at*float64(time.Second))))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTheSameScriptGivesTheSameReadings(t *testing.T) {
	t.Parallel()
	a, b := Demo(), Demo()
	for at := 0.0; at < 300; at += 7 {
		if !reflect.DeepEqual(read(t, a, at), read(t, b, at)) {
			t.Fatalf("readings differ after %.0f s", at)
		}
	}
}

func TestACardsBytesAlwaysAddUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		m := Fleet(rapid.IntRange(1, 8).Draw(rt, "cards"), rapid.IntRange(0, 40).Draw(rt, "processes"))
		for range 5 {
			r, err := m.Read(context.Background(), start.Add(time.Duration(rapid.IntRange(0, 4000).Draw(rt, "at"))*time.Second))
			if err != nil {
				rt.Fatal(err)
			}
			for _, c := range r.Cards {
				if c.Used+c.Free+c.Reserved != c.Total || c.Free < 0 {
					rt.Fatalf("%+v", c)
				}
			}
		}
	})
}

func TestAProcessThatFindsItsCardFullDies(t *testing.T) {
	t.Parallel()
	m := New([]watch.Card{{ID: "a", Total: 10 * units.GiB}}, []Process{
		{PID: 1, Law: Constant(8 * units.GiB)}, {PID: 2, Law: Leak(units.GiB, 60*units.MiB, units.MiB)},
	})
	read(t, m, 0)
	if r := read(t, m, 1024); len(r.Uses) != 2 {
		t.Errorf("after 1024 s the card is exactly full: %+v", r.Uses)
	}
	r := read(t, m, 1030)
	if died, ok := m.OutOfMemory(2); !ok || died != 1025 || len(r.Uses) != 1 || r.Cards[0].Used != 8*units.GiB {
		t.Errorf("died at %v (%v), %+v", died, ok, r)
	}
}

func TestWhatADeadProcessLeavesStaysOnTheCard(t *testing.T) {
	t.Parallel()
	m := New([]watch.Card{{ID: "a", Total: 10 * units.GiB}}, []Process{{PID: 1, Law: Constant(8 * units.GiB), Dies: 5, Leaves: 3 * units.GiB}})
	read(t, m, 0)
	if r := read(t, m, 6); len(r.Uses) != 0 || r.Cards[0].Used != 3*units.GiB {
		t.Errorf("%+v", r)
	}
}
