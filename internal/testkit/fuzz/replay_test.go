package fuzz

import (
	"bytes"
	"testing"

	"github.com/plimsoll/plimsoll/internal/evidence/recording"
	"github.com/plimsoll/plimsoll/internal/memory/replay"
	"github.com/plimsoll/plimsoll/internal/testkit/hostile"
	"github.com/plimsoll/plimsoll/snapshot"
)

// replaying replays recordings that nearly make sense: whatever the model makes of them, its own books balance.
func replaying(f fuzzer) {
	whole := hostile.New(hostile.Snapshot())
	hostile.Seed(f)
	f.Fuzz(func(t *testing.T, choices []byte) {
		s, err := snapshot.Read(bytes.NewReader(whole.JSON(hostile.FromBytes(choices))))
		if err != nil {
			return
		}
		for _, d := range recording.Devices(s) {
			c, err := replay.Open(recording.New(s, d), replay.Options{})
			if err != nil {
				continue
			}
			if f := c.Fidelity; f.AddressMatches > f.Allocs || f.SegmentMatches > f.SegmentEvents || f.Allocs > f.Events || f.FirstDivergence >= f.Events {
				t.Fatalf("%+v", f)
			}
			a := c.Answer(replay.Question{Settings: replay.Settings(c.Torch, true)[:3]})
			for _, row := range a.Settings {
				if row.Peak.Reserved < row.Peak.Allocated || row.Peak.Allocated < 0 || row.OOM == nil && row.Peak.Allocated < row.Peak.Requested {
					t.Fatalf("%+v", row)
				}
			}
			if err := hostile.CheckJSON(a); err != nil {
				t.Fatal(err)
			}
			c.Rescue()
		}
	})
}
