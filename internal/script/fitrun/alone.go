package fitrun

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

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
