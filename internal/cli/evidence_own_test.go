package cli

import (
	"slices"
	"testing"
)

func TestARecordingOfTheFailureGoesBeforeThoseOfTheRunBefore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ files, want []string }{
		{[]string{"r/rank0-1.growth.pickle", "r/rank0-1.peak.pickle.gz", "r/rank0-1.pickle.gz", "r/stderr.txt"}, []string{"r/rank0-1.pickle.gz", "r/stderr.txt"}},
		{[]string{"r/rank0-1.growth.pickle", "r/rank0-1.peak.pickle", "r/rank1-2.peak.pickle"}, []string{"r/rank0-1.growth.pickle", "r/rank1-2.peak.pickle"}},
		{[]string{"r/rank0-1.pickle", "r/rank1-2.growth.pickle"}, []string{"r/rank0-1.pickle", "r/rank1-2.growth.pickle"}},
		{[]string{"a.pickle", "my.growth.pickle"}, []string{"a.pickle", "my.growth.pickle"}},
	} {
		if got := ownRecordings(slices.Clone(c.files)); !slices.Equal(got, c.want) {
			t.Errorf("of %q: %q, want %q", c.files, got, c.want)
		}
	}
}
