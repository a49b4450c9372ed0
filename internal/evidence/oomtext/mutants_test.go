package oomtext

import (
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/testkit/hostile"
)

// FuzzMutants reads logs that nearly make sense, whole and byte by byte: both give the same.
func FuzzMutants(f *testing.F) {
	hostile.Seed(f)
	f.Fuzz(func(t *testing.T, choices []byte) {
		text := hostile.Text(hostile.Log, hostile.FromBytes(choices))
		log, err := Read(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if log.Bytes != int64(len(text)) || len(log.Messages) > MaxMessages {
			t.Fatalf("%d bytes of %d, %d messages", log.Bytes, len(text), len(log.Messages))
		}
		for _, m := range log.Messages {
			for _, a := range []Amount{m.Requested, m.Capacity, m.Free, m.Process, m.Allocated, m.Reserved, m.ReservedUnallocated, m.PrivatePools, m.Allowed} {
				if a.Bytes < 0 || a.Within < 0 || !a.Known && a.Bytes != 0 {
					t.Fatalf("%+v", a)
				}
			}
		}
	})
}
