package replay

import (
	"testing"

	"github.com/plimsoll/plimsoll/internal/evidence/recording"
	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/testkit/recordtest"
)

// BenchmarkReplay plays a real training run (variable-length GPT-2, 26,641 allocations) under one setting.
func BenchmarkReplay(b *testing.B) {
	c := opened(b, "alloc-varlen-default")
	for _, text := range []string{"", "expandable_segments:True", "max_split_size_mb:64", "roundup_power2_divisions:4"} {
		name := text
		if name == "" {
			name = "default"
		}
		s, err := ParseSetting(text, c.Torch)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.play(s, Target{}, alloc.Regions())
			}
			b.ReportMetric(float64(b.N)*float64(len(c.tape.Events))/b.Elapsed().Seconds()/1e6, "Mevents/s")
		})
	}
}

// BenchmarkOpen proves a recording: every address compared.
func BenchmarkOpen(b *testing.B) {
	r := recording.New(recordtest.Snapshot(b, "alloc-varlen-default"), 0)
	for b.Loop() {
		if _, err := Open(r, Options{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*float64(r.Trace.Len())/b.Elapsed().Seconds()/1e6, "Mevents/s")
}
