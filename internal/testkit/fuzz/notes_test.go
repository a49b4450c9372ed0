package fuzz

import (
	"bytes"
	"testing"

	"github.com/plimsoll/plimsoll/internal/evidence/probenotes"
	"github.com/plimsoll/plimsoll/internal/testkit/hostile"
)

// readingNotes reads notes that nearly make sense, beside notes that do.
func readingNotes(f fuzzer) {
	whole := hostile.New([]byte(hostile.Notes))
	good, err := probenotes.Read(bytes.NewReader([]byte(hostile.Notes)))
	if err != nil {
		f.Fatal(err)
	}
	hostile.Seed(f)
	f.Fuzz(func(t *testing.T, choices []byte) {
		p, err := probenotes.Read(bytes.NewReader(whole.JSON(hostile.FromBytes(choices))))
		if err != nil {
			return
		}
		all := []probenotes.Process{good, p}
		probenotes.Healthy(all)
		probenotes.PeakLine(all)
		if dead := probenotes.Died(all); len(dead) > 2 {
			t.Fatalf("%d of 2 processes died", len(dead))
		} else {
			probenotes.WhoDied(dead, all)
		}
	})
}
