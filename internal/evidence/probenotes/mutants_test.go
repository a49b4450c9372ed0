package probenotes

import (
	"bytes"
	"testing"

	"github.com/plimsoll/plimsoll/internal/testkit/hostile"
)

// FuzzMutants reads notes that nearly make sense, beside notes that do.
func FuzzMutants(f *testing.F) {
	whole := hostile.New([]byte(hostile.Notes))
	good, err := Read(bytes.NewReader([]byte(hostile.Notes)))
	if err != nil {
		f.Fatal(err)
	}
	hostile.Seed(f)
	f.Fuzz(func(t *testing.T, choices []byte) {
		p, err := Read(bytes.NewReader(whole.JSON(hostile.FromBytes(choices))))
		if err != nil {
			return
		}
		all := []Process{good, p}
		Healthy(all)
		PeakLine(all)
		if dead := Died(all); len(dead) > 2 {
			t.Fatalf("%d of 2 processes died", len(dead))
		} else {
			WhoDied(dead, all)
		}
	})
}
