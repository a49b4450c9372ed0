package alloc

import (
	"testing"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// trainingLike is a tape with the rhythm of training: many small and large tensors that live for a step in
// last-in-first-out order, parameters that stay, sizes that vary between steps.
func trainingLike(steps, layers int) *tape.Tape {
	t := &tape.Tape{Streams: []uint64{0}, Pools: [][2]uint64{{}}}
	alloc := func(size units.Bytes) uint32 {
		id := uint32(t.Allocs)
		t.Allocs++
		t.Events = append(t.Events, tape.Event{Kind: tape.Alloc, ID: id, Size: size})
		return id
	}
	free := func(id uint32) { t.Events = append(t.Events, tape.Event{Kind: tape.Free, ID: id}) }
	for l := range layers {
		alloc(units.Bytes(1000 + 3000*l))
		alloc(units.Bytes(9 * units.MiB))
	}
	rng := uint32(1)
	for range steps {
		rng = rng*1664525 + 1013904223
		tokens := units.Bytes(200 + rng>>22)
		var saved []uint32
		for l := range layers {
			saved = append(saved, alloc(tokens*3072), alloc(tokens*4), alloc(tokens*12288+units.Bytes(l)))
			temporary := alloc(tokens * 6144)
			saved = append(saved, alloc(tokens*3072))
			free(temporary)
		}
		for i := len(saved) - 1; i >= 0; i-- {
			gradient := alloc(tokens * 3072)
			free(saved[i])
			free(gradient)
		}
	}
	return t
}

func benchmarkTape(b *testing.B, conf string, limit units.Bytes) {
	t := trainingLike(400, 48)
	c, err := ParseConf(conf, torch.Version{})
	if err != nil {
		b.Fatal(err)
	}
	a := New(Policy{Conf: c, Cap: limit, IDs: t.Allocs})
	a.Play(t, nil)
	b.ReportAllocs()
	start := cpuTime()
	for b.Loop() {
		a.Play(t, nil)
	}
	used := cpuTime() - start
	b.ReportMetric(float64(b.N)*float64(len(t.Events))/used.Seconds()/1e6, "Mevents/cpu-s")
}

func BenchmarkReplayDefault(b *testing.B)    { benchmarkTape(b, "", 0) }
func BenchmarkReplayExpandable(b *testing.B) { benchmarkTape(b, "expandable_segments:True", 0) }
func BenchmarkReplaySplit(b *testing.B)      { benchmarkTape(b, "max_split_size_mb:64", 0) }
func BenchmarkReplayRounding(b *testing.B)   { benchmarkTape(b, "roundup_power2_divisions:4", 0) }
func BenchmarkReplayCollecting(b *testing.B) {
	benchmarkTape(b, "max_split_size_mb:64,garbage_collection_threshold:0.6", 16*units.GiB)
}
