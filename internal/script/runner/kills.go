package runner

import (
	"os"
	"strconv"
	"strings"
)

// kernelKills reads how many processes the kernel has killed because memory ran out: those of this control group where the
// kernel counts them (memory.events, cgroup v2), else those of the machine (/proc/vmstat, Linux 4.13).
func kernelKills() int {
	for _, path := range []string{"/sys/fs/cgroup/memory.events", "/proc/vmstat"} {
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(data)) {
			if count, ok := strings.CutPrefix(line, "oom_kill "); ok {
				n, _ := strconv.Atoi(strings.TrimSpace(count))
				return n
			}
		}
	}
	return 0
}
