package cli

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/internal/script/runner"
)

const (
	lookEvery = 500 * time.Millisecond
	rankGrace = 5 * time.Second // what a launcher is given to notice that one of its ranks is gone
)

// attemptTogether runs the command once. When one rank of a job has died for want of memory, or cannot honour the plan, and the launcher lets the others wait
// for it, the whole launch is ended: ranks in a collective wait for the dead one until a timeout of minutes or for ever.
func (r *observedRun) attemptTogether(args []string, plan string) (runner.Outcome, error) {
	stop, done := make(chan struct{}), make(chan struct{})
	defer close(done)
	go func() {
		var since time.Time
		for tick := time.NewTicker(lookEvery); ; {
			select {
			case <-done:
				tick.Stop()
				return
			case now := <-tick.C:
				gone, _ := filepath.Glob(filepath.Join(r.report, "rank*.gone"))
				if len(gone) == 0 {
					continue
				}
				if since.IsZero() {
					since = now
				}
				if now.Sub(since) > rankGrace {
					tick.Stop()
					close(stop)
					return
				}
			}
		}
	}()
	return r.attempt(args, plan, stop)
}

// beyondUs tells why this plimsoll cannot decide for the whole job: it runs on several machines, or is one rank of it already. Empty where it can.
func beyondUs(args []string, variable func(string) string) string {
	for i, arg := range args {
		name, value, joined := strings.Cut(strings.ReplaceAll(strings.TrimPrefix(arg, "--"), "_", "-"), "=")
		if !strings.HasPrefix(arg, "--") || (name != "nnodes" && name != "num-machines") {
			continue
		}
		if !joined && i+1 < len(args) {
			value = args[i+1]
		}
		for count := range strings.SplitSeq(value, ":") { // torchrun: least:most
			if n, err := strconv.Atoi(count); err == nil && n > 1 {
				return fmt.Sprintf("the job runs on several machines (--%s %s), which would have to decide together", name, value)
			}
		}
	}
	more := func(name string) bool {
		n, err := strconv.Atoi(variable(name))
		return err == nil && n > 1
	}
	if filepath.Base(args[0]) == "srun" && more("SLURM_NNODES") {
		return fmt.Sprintf("the job runs on several machines (SLURM_NNODES=%s), which would have to decide together", variable("SLURM_NNODES"))
	}
	for _, name := range []string{"WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE"} {
		if more(name) && (name != "WORLD_SIZE" || variable("RANK") != "") {
			return fmt.Sprintf("this is one rank of several (%s=%s); put plimsoll in front of the launcher, so that all decide together", name, variable(name))
		}
	}
	return ""
}
