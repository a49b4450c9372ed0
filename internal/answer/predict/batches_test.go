package predict

import (
	"slices"
	"testing"
)

func TestTheLadderOfBatchesHasBothSidesOfTheLimitAndTheJobsOwn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		own, most int
		want      []int
	}{
		{16, 13, []int{1, 2, 4, 8, 13, 14, 16, 32}},
		{3, 0, []int{1, 2, 3}},
		{1, 1, []int{1, 2, 4}},
	} {
		if got := ladder(c.own, c.most); !slices.Equal(got, c.want) {
			t.Errorf("ladder(%d, %d) = %v, want %v", c.own, c.most, got, c.want)
		}
	}
	if got := ladder(8, maxBatch); got[len(got)-1] != maxBatch {
		t.Errorf("the ladder ends at %d", got[len(got)-1])
	}
}
