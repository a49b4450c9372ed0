// Package runner runs a command as if plimsoll were not there.
//
// It takes a command line, an environment and the caller's own streams and returns how the command ended. Its output, its terminal,
// its signals and its exit code pass through: the child stays in plimsoll's process group, so the terminal reaches it directly, and signals sent to plimsoll
// alone are handed on. It never retries, and ends a command with all its processes only when the caller says so.
package runner

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
)

// Command is what to run.
type Command struct {
	Args   []string // the program and its arguments; at least one
	Env    []string // the whole environment
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Stop   <-chan struct{} // when closed, the command and every process it has started are ended; nil: never

	Errors   *Tail    // takes the end of what is written to stderr; nil: nothing is read along
	Terminal bool     // read along where stderr is a terminal, too
	Helper   []string // command line that calls Help with the arguments that follow; empty: processes the command leaves behind are on their own
	Remove   string   // folder that the helper removes should plimsoll be killed
	Started  func(pid int)
}

// Outcome is how a command ended.
type Outcome struct {
	Code        int            // its exit code; 128 + the signal's number when a signal ended it
	Signal      syscall.Signal // what ended it, or zero
	Asked       syscall.Signal // the first signal that asked plimsoll to end while the command ran, or zero
	KernelKills int            // processes the kernel killed meanwhile because host memory ran out, in this container where it can tell
}

// Killed tells whether the command, or a part of it, looks killed because host memory ran out.
func (o Outcome) Killed() bool {
	return o.KernelKills > 0 || o.Signal == syscall.SIGKILL || o.Code == 128+int(syscall.SIGKILL)
}

// Run starts the command and waits for its end. An error means that it could not be started.
func Run(c Command) (Outcome, error) {
	// The child is told to die when the thread that started it does, so this thread must live on.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Env, c.Stdin, c.Stdout, c.Stderr
	cmd.SysProcAttr = dieWithParent()
	before := kernelKills()

	along := newTap(c, cmd)
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, heard()...)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		along.close()
		return Outcome{Code: startCode(err)}, fmt.Errorf("start %s: %w", c.Args[0], err)
	}
	defer guard(c, cmd.Process.Pid)()
	along.start()
	if c.Started != nil {
		c.Started(cmd.Process.Pid)
	}
	done, answer := make(chan struct{}), make(chan syscall.Signal, 1)
	go func() { answer <- attend(signals, c.Stop, done, cmd.Process, along.size) }()
	err := cmd.Wait()
	close(done)
	asked := <-answer
	along.finish()

	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return Outcome{Code: 1}, fmt.Errorf("wait for %s: %w", c.Args[0], err)
	}
	out := ended(cmd.ProcessState)
	out.Asked = asked
	out.KernelKills = kernelKills() - before
	return out, nil
}

// attend hands signals on until the command is done, ends it when told to, and returns the first signal that asked for an end.
func attend(signals <-chan os.Signal, end, done <-chan struct{}, child *os.Process, size func()) syscall.Signal {
	var asked syscall.Signal
	for {
		select {
		case s := <-signals:
			number, _ := s.(syscall.Signal)
			switch number {
			case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT:
				if asked == 0 {
					asked = number
				}
			case resized:
				if size == nil {
					continue // the terminal has told the child itself
				}
				size()
			}
			typed := number == syscall.SIGINT || number == syscall.SIGQUIT
			if !typed || !terminalSentIt() { // else the child has it already
				_ = child.Signal(s) // it may have ended in this moment
			}
			if number == suspended {
				stopHere()
			}
		case <-end:
			endTree(child, done)
			end = nil
		case <-done:
			return asked
		}
	}
}

func ended(state *os.ProcessState) Outcome {
	status, ok := state.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return Outcome{Code: 128 + int(status.Signal()), Signal: status.Signal()}
	}
	return Outcome{Code: state.ExitCode()}
}

// startCode is what a shell returns: 127 for a command that is not there, 126 for one that may not run.
func startCode(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return 127
	}
	return 126
}
