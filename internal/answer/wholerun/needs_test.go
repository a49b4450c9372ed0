package wholerun

import (
	"fmt"
	"os"
	"testing"

	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/units"
)

func TestNeeds(t *testing.T) {
	if os.Getenv("PLIMSOLL_NEEDS") == "" {
		t.Skip("PLIMSOLL_NEEDS is not set")
	}
	for i, r := range measuredRuns(t) {
		if only := os.Getenv("PLIMSOLL_NEEDS"); only != "all" && only != fmt.Sprint(i) {
			continue
		}
		s, schedule := r.sim(t)
		free, err := s.Play(schedule, alloc.Policy{})
		if err != nil {
			t.Error(r.ID, err)
			continue
		}
		need, err := s.least(schedule, alloc.Policy{})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("NEED %d %d %s free %d allocated %d reserved\n", i, need, r.ID, free.MaxAllocated, free.MaxReserved)
		for _, share := range []units.Bytes{96, 97, 98, 99, 100, 101, 102, 103, 104} {
			p, err := s.Play(schedule, alloc.Policy{Cap: need * share / 100})
			if err != nil {
				t.Fatal(err)
			}
			at := 0
			if p.Failed != nil {
				at = p.Failed.Step
			}
			fmt.Printf("  %d %% of it: fails at %d, retries %d\n", share, at, p.Retries)
		}
	}
}
