package predict

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/internal/units"
)

func TestTheLargestSizeThatFitsIsFoundWithFewTries(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.Int64Range(0, 1<<20).Draw(t, "base")
		slope := rapid.Int64Range(1, 1<<16).Draw(t, "slope")
		room := rapid.Int64Range(0, 1<<28).Draw(t, "room")
		most := rapid.IntRange(1, 4096).Draw(t, "most")
		tries := 0
		got := largest(rapid.IntRange(1, 5000).Draw(t, "start"), most, func(n int) (units.Bytes, bool) {
			tries++
			return units.Bytes(base + slope*int64(n)), true
		}, units.Bytes(room))
		want := 0
		for n := 1; n <= most && base+slope*int64(n) <= room; n++ {
			want = n
		}
		if got != want {
			t.Fatalf("largest = %d, want %d", got, want)
		}
		if tries > 40 {
			t.Fatalf("%d tries", tries)
		}
	})
}

func TestABorderIsFoundAroundAGuess(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.IntRange(0, maxBatch).Draw(t, "border")
		tries := 0
		got := around(rapid.IntRange(1, maxBatch).Draw(t, "guess"), func(n int) bool {
			tries++
			return n <= want
		})
		if got != want {
			t.Fatalf("around = %d, want %d", got, want)
		}
		if tries > 40 {
			t.Fatalf("%d tries", tries)
		}
	})
}
