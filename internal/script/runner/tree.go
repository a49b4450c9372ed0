package runner

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// grace is what processes are given between being asked to end and being ended.
const grace = 5 * time.Second

// process is one that runs: its number, and the start time that tells it from a later one of the same number.
type process struct {
	pid     int
	started string
}

// endTree asks a command to end, which lets a launcher end its own workers, then ends whatever of it is left. Workers that a launcher leaves behind
// hold their GPUs and wait for the ranks that are gone.
func endTree(child *os.Process, done <-chan struct{}) {
	below := descendants(child.Pid)
	_ = child.Signal(syscall.SIGTERM)
	select {
	case <-done:
	case <-time.After(grace):
		below = append(below, descendants(child.Pid)...)
		_ = child.Kill()
	}
	for _, p := range below {
		if now, ok := read(p.pid); ok && now.started == p.started {
			kill(p.pid)
		}
	}
}

// descendants are the processes that a process started, and those that they did; none where there is no /proc.
func descendants(root int) []process {
	entries, _ := filepath.Glob("/proc/[0-9]*")
	children := map[int][]process{}
	for _, entry := range entries {
		pid, err := strconv.Atoi(filepath.Base(entry))
		if err != nil {
			continue
		}
		if p, parent, ok := stat(pid); ok {
			children[parent] = append(children[parent], p)
		}
	}
	var found []process
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		for _, p := range children[queue[0]] {
			found = append(found, p)
			queue = append(queue, p.pid)
		}
	}
	return found
}

func read(pid int) (process, bool) {
	p, _, ok := stat(pid)
	return p, ok
}

// stat reads parent and start time, fields 4 and 22 of /proc/PID/stat (proc_pid_stat(5)); the name before them may hold anything.
func stat(pid int) (p process, parent int, ok bool) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, 0, false
	}
	text := string(data)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return process{}, 0, false
	}
	parent, err = strconv.Atoi(fields[1])
	return process{pid, fields[19]}, parent, err == nil
}
