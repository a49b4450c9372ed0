package job

import (
	"testing"

	"github.com/plimsoll/plimsoll/internal/setup"
)

func TestHowAModelIsLoadedFollowsWhatIsTrained(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		job  Job
		want setup.Load
	}{
		{Job{}, setup.LoadCard}, {Job{LoRARank: 8}, setup.LoadHost}, {Job{LoRARank: 8, BaseBits: 4}, setup.LoadMapped},
		{Job{LoRARank: 8, Load: setup.LoadCard}, setup.LoadCard}, {Job{Load: setup.LoadMapped}, setup.LoadMapped},
	} {
		if got := c.job.Loaded(); got != c.want {
			t.Errorf("rank %d, %d bits, load %q: %q, want %q", c.job.LoRARank, c.job.BaseBits, c.job.Load, got, c.want)
		}
	}
}
