package runner

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// The guard is a process that does nothing while plimsoll lives. When plimsoll is killed, the kernel kills the command; the guard kills what the
// command had started (a launcher's ranks would hold their GPUs) and removes the temporary folder. What had become a daemon before is left alone.

// The guard looks who belongs to the command: often at first, when processes are started, once a second later.
const (
	lookFirst = 20 * time.Millisecond
	lookLater = time.Second
)

// guard starts the guard; the returned function lets it go.
func guard(c Command, child int) (letGo func()) {
	if len(c.Helper) == 0 {
		return func() {}
	}
	in, hold, err := os.Pipe()
	if err != nil {
		return func() {}
	}
	defer in.Close()
	cmd := exec.Command(c.Helper[0], append(c.Helper[1:len(c.Helper):len(c.Helper)], "guard", strconv.Itoa(child), c.Remove)...)
	cmd.Stdin, cmd.SysProcAttr = in, detached()
	if err := cmd.Start(); err != nil {
		hold.Close()
		return func() {}
	}
	return func() {
		_, _ = hold.Write([]byte("done"))
		hold.Close()
		_ = cmd.Wait()
	}
}

// Help is what plimsoll does as a helper of another plimsoll: "carry" hands stdin on to stdout, "guard PID FOLDER" waits for the other's death.
func Help(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "carry":
		_, _ = io.Copy(os.Stdout, os.Stdin)
		return nil
	case len(args) == 3 && args[0] == "guard":
		child, err := strconv.Atoi(args[1])
		if err != nil {
			return fmt.Errorf("helper: %w", err)
		}
		watchOver(child, args[2], os.Stdin)
		return nil
	}
	return errors.New("internal helper: do not run it directly")
}

// watchOver waits until plimsoll says that all is well or is gone.
func watchOver(child int, folder string, plimsoll io.Reader) {
	over := make(chan bool, 1)
	go func() {
		said, _ := io.ReadAll(plimsoll)
		over <- len(said) > 0
	}()
	known, wait := descendants(child), lookFirst
	for {
		select {
		case <-time.After(wait):
			known, wait = descendants(child), min(2*wait, lookLater)
		case well := <-over:
			if well {
				return
			}
			endAll(append(known, descendants(child)...))
			removeOurs(folder)
			return
		}
	}
}

func alive(p process) bool {
	now, ok := read(p.pid)
	return ok && now.started == p.started
}

// endAll kills processes and what they have started meanwhile, until none is left.
func endAll(all []process) {
	for range 8 {
		var more []process
		for _, p := range all {
			if alive(p) {
				more = append(more, descendants(p.pid)...)
				kill(p.pid)
			}
		}
		if len(more) == 0 {
			return
		}
		all = more
	}
}
