//go:build unix

package watch_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/internal/live/simgpu"
	"github.com/plimsoll/plimsoll/internal/live/watch"
)

// BenchmarkLook measures what watching costs once the history is full: the metric core-% is the share of one core at one reading a
// second, in processor time with the garbage collector's. It fails above the share the size of machine may take.
func BenchmarkLook(b *testing.B) {
	for _, size := range []struct {
		name             string
		cards, processes int
		most             float64
	}{{"8 cards 16 processes", 8, 16, 1}, {"64 cards 500 processes", 64, 500, 5}} {
		b.Run(size.name, func(b *testing.B) {
			m, history, now := simgpu.Fleet(size.cards, size.processes), watch.NewHistory(), start
			look := func(n int) {
				for range n {
					now = now.Add(time.Second)
					history.Look(context.Background(), m, now)
				}
			}
			look(900)
			b.ReportAllocs()
			began := processorTime(b)
			for b.Loop() {
				look(minute)
			}
			share := 100 * (processorTime(b) - began).Seconds() / float64(b.N*minute)
			b.ReportMetric(share, "core-%")
			if share > size.most {
				b.Errorf("%.2f %% of a core, more than %.0f", share, size.most)
			}
		})
	}
}

// minute is how many readings one round of the benchmark makes.
const minute = 60

// processorTime is what this process has used of all cores.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
