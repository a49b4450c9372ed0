package page

import (
	"bytes"
	"testing"

	"github.com/plimsoll/plimsoll/internal/testkit/hostile"
	"github.com/plimsoll/plimsoll/snapshot"
)

// FuzzMutants shows recordings that nearly make sense.
func FuzzMutants(f *testing.F) {
	whole := hostile.New(hostile.Snapshot())
	hostile.Seed(f)
	f.Fuzz(func(t *testing.T, choices []byte) {
		if s, err := snapshot.Read(bytes.NewReader(whole.JSON(hostile.FromBytes(choices)))); err == nil {
			everything(t, s)
		}
	})
}
