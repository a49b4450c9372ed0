package cli

import (
	"os"
	"path/filepath"
	"testing"
)

// TestCausesOfTheRecordedBench explains the recordings of testdata/bench, whose causes are known: programs with one mistake each, or none, run on one H200 with PyTorch 2.11, under
// plimsoll run and with PyTorch's own recorder. The rules were written with the programs of dev in view; those of unseen were only counted. go test -v prints claimed against true.
func TestCausesOfTheRecordedBench(t *testing.T) {
	t.Parallel()
	for _, half := range []struct {
		name                  string
		first, accepted, line int // at least, in per cent of the recordings with a mistake
	}{{"dev", 88, 92, 84}, {"unseen", 65, 82, 82}} {
		t.Run(half.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join("..", "..", "testdata", "bench", half.name)
			if _, err := os.Stat(dir); err != nil {
				t.Skip("no recordings of this half")
			}
			var all []answered
			for _, row := range truths(t, dir) {
				for variant, file := range row.recordings(dir) {
					all = append(all, ask(t, row, variant, file))
				}
			}
			summary(t, half.name, all)
			calibration(t, all)
			sick, first, accepted, line, sure, right := 0, 0, 0, 0, 0, 0
			for i := range all {
				a := &all[i]
				if a.healthy() {
					if !a.right {
						t.Errorf("%s under %s is healthy and got an error: %s", a.Program, a.variant, a.first.Title)
					}
					continue
				}
				sick++
				first += count(a.right)
				accepted += count(a.accepted)
				line += count(a.accepted && a.lineOK)
				sure += count(a.said && a.first.Confidence >= 0.95)
				right += count(a.said && a.first.Confidence >= 0.95 && a.right)
			}
			for _, want := range []struct {
				what       string
				got, least int
			}{{"the cause first", first, half.first}, {"it or one that is true as well", accepted, half.accepted}, {"with the line or holder", line, half.line}} {
				if 100*want.got < want.least*sick {
					t.Errorf("%s in %d of %d recordings, want %d %%", want.what, want.got, sick, want.least)
				}
			}
			if 100*right < 95*sure {
				t.Errorf("%d of %d answers that claim 95 %% are right", right, sure)
			}
		})
	}
}
