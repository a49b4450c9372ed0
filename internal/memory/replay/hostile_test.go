package replay

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/internal/evidence/recording"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/snapshot"
)

// anyNumber draws sizes and addresses that occur, and ones that cannot.
func anyNumber(t *rapid.T, label string) int64 {
	switch rapid.IntRange(0, 9).Draw(t, label+" kind") {
	case 0:
		return rapid.Int64().Draw(t, label)
	case 1:
		return rapid.SampledFrom([]int64{0, -1, 1, 511, math.MaxInt64, math.MinInt64, 1 << 60, 1<<60 + 1, 1 << 40}).Draw(t, label)
	}
	return int64(rapid.IntRange(0, 40).Draw(t, label)) << 20
}

func anySnapshot(t *rapid.T) *snapshot.Snapshot {
	s := &snapshot.Snapshot{Traces: make([]snapshot.Trace, 1)}
	tr := &s.Traces[0]
	tr.Streams = []uint64{0, 7}
	for range rapid.IntRange(1, 60).Draw(t, "events") {
		tr.Action = append(tr.Action, snapshot.Action(rapid.IntRange(0, int(snapshot.ActionUserDefined)).Draw(t, "action")))
		tr.Addr = append(tr.Addr, uint64(anyNumber(t, "addr")))
		tr.Size = append(tr.Size, anyNumber(t, "size"))
		tr.Stream = append(tr.Stream, uint16(rapid.IntRange(0, 1).Draw(t, "stream")))
		tr.Stack = append(tr.Stack, 0)
	}
	for range rapid.IntRange(0, 4).Draw(t, "segments") {
		g := snapshot.Segment{
			Address: uint64(anyNumber(t, "segment")), TotalSize: anyNumber(t, "total"),
			Small: rapid.Bool().Draw(t, "small"), Expandable: rapid.Bool().Draw(t, "expandable"),
			PoolID: [2]int64{int64(rapid.IntRange(0, 1).Draw(t, "pool")), 0},
		}
		for range rapid.IntRange(0, 4).Draw(t, "blocks") {
			g.Blocks = append(g.Blocks, snapshot.Block{
				Address: uint64(anyNumber(t, "block")), Size: anyNumber(t, "block size"), Requested: anyNumber(t, "requested"),
				State: snapshot.BlockState(rapid.IntRange(0, 2).Draw(t, "state")),
			})
		}
		s.Segments = append(s.Segments, g)
	}
	s.Settings = snapshot.Settings{
		Known: rapid.Bool().Draw(t, "known"), Expandable: rapid.Bool().Draw(t, "expandable setting"),
		MaxSplitSize: anyNumber(t, "max split"), GarbageCollection: rapid.SampledFrom([]float64{0, 0.5, -1, 7, math.NaN()}).Draw(t, "gc"),
		RoundupPower2: map[int]int{1: rapid.IntRange(-1, 9).Draw(t, "divisions")},
	}
	return s
}

func TestNoHistoryIsTooStrangeToReplay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c, err := Open(recording.New(anySnapshot(t), 0), Options{})
		if err != nil {
			return
		}
		a := c.Answer(Question{Settings: c.Sensible(torch.Version{}, true)[:2]})
		if len(a.Settings) == 0 {
			t.Fatal("no settings in the answer")
		}
	})
}
