package fuzz

import (
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/evidence/oomtext"
	"github.com/plimsoll/plimsoll/internal/testkit/hostile"
)

// readingMessages reads logs that nearly make sense.
func readingMessages(f fuzzer) {
	hostile.Seed(f)
	f.Fuzz(func(t *testing.T, choices []byte) {
		text := hostile.Text(hostile.Log, hostile.FromBytes(choices))
		log, err := oomtext.Read(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if log.Bytes != int64(len(text)) || len(log.Messages) > oomtext.MaxMessages {
			t.Fatalf("%d bytes of %d, %d messages", log.Bytes, len(text), len(log.Messages))
		}
		for _, m := range log.Messages {
			for _, a := range []oomtext.Amount{m.Requested, m.Capacity, m.Free, m.Process, m.Allocated, m.Reserved, m.ReservedUnallocated, m.PrivatePools, m.Allowed} {
				if a.Bytes < 0 || a.Within < 0 || !a.Known && a.Bytes != 0 {
					t.Fatalf("%+v", a)
				}
			}
		}
	})
}
