package fuzz

import (
	"bytes"
	"testing"

	"github.com/plimsoll/plimsoll/internal/evidence/holders"
	"github.com/plimsoll/plimsoll/internal/evidence/recording"
	"github.com/plimsoll/plimsoll/internal/testkit/hostile"
	"github.com/plimsoll/plimsoll/snapshot"
)

// matchingHolders matches holders that nearly make sense with a recording that does.
func matchingHolders(f fuzzer) {
	whole := hostile.New([]byte(hostile.Holders))
	s, err := snapshot.Read(bytes.NewReader(hostile.Snapshot()))
	if err != nil {
		f.Fatal(err)
	}
	r := recording.New(s, 0)
	if read, err := holders.Read(bytes.NewReader([]byte(hostile.Holders))); err != nil || holders.New(read, r).Held == 0 {
		f.Fatalf("the holders to begin with: %v", err)
	}
	hostile.Seed(f)
	f.Fuzz(func(t *testing.T, choices []byte) {
		read, err := holders.Read(bytes.NewReader(whole.JSON(hostile.FromBytes(choices))))
		if err != nil {
			return
		}
		if m := holders.New(read, r); m.Held > m.Alive || m.Held < 0 {
			t.Fatalf("held %d of %d", m.Held, m.Alive)
		}
		for i := range read.Holders {
			read.Holders[i].Storages()
		}
	})
}
