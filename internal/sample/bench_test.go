package sample_test

import (
	"context"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/internal/sample"
	"github.com/plimsoll/plimsoll/internal/simgpu"
)

// BenchmarkLook measures what one second of watching costs once the history is full: the metric core-% is the share of one
// core at one reading a second.
func BenchmarkLook(b *testing.B) {
	for _, size := range []struct {
		name             string
		cards, processes int
	}{{"8 cards 16 processes", 8, 16}, {"64 cards 500 processes", 64, 500}} {
		b.Run(size.name, func(b *testing.B) {
			m, history, now := simgpu.Fleet(size.cards, size.processes), sample.NewHistory(), start
			for range 900 {
				now = now.Add(time.Second)
				history.Look(context.Background(), m, now)
			}
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(time.Second)
				history.Look(context.Background(), m, now)
			}
			b.ReportMetric(100*b.Elapsed().Seconds()/float64(b.N), "core-%")
		})
	}
}
