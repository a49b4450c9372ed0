package fuzz

import (
	"testing"

	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/testkit/hostile"
)

// readingJobs reads jobs that nearly make sense: what is accepted can be run.
func readingJobs(f fuzzer) {
	whole := hostile.New([]byte(hostile.Job))
	if _, err := job.Parse([]byte(hostile.Job)); err != nil {
		f.Fatal(err)
	}
	hostile.Seed(f)
	f.Fuzz(func(t *testing.T, choices []byte) {
		j, err := job.Parse(whole.JSON(hostile.FromBytes(choices)))
		switch {
		case err != nil && hostile.CheckText([]byte(err.Error())) != nil:
			t.Fatalf("%q", err)
		case err == nil && (j.Batch <= 0 || j.Seq < 0 || j.Accumulate <= 0 || j.Source == "" || !(j.LoRADropout >= 0 && j.LoRADropout < 1)):
			t.Fatalf("accepted %+v", j)
		}
	})
}
