//go:build unix

package runner

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"

	"golang.org/x/sys/unix"
)

// tap reads along what a command writes to stderr. What the command sees stays what it was: a file is written by the command itself and read
// afterwards; a pipe is replaced by a pipe and a terminal by a terminal of the same size, and what comes out of them goes on unchanged. Where
// stdout is the same pipe or terminal as stderr it takes the same way, so that the order of their bytes stays.
type tap struct {
	tail   *Tail
	helper []string

	file *os.File // a regular file: read from its old end on
	from int64

	source *os.File // the end plimsoll reads
	given  *os.File // the end the command has
	to     *os.File // where it goes on
	size   func()   // tells the command's terminal the size of the real one

	pumped sync.WaitGroup
	wake   [2]*os.File // closing the second ends the pump
}

// newTap puts a tap between a command and its stderr. It never fails: where nothing can be put in between, nothing is read along.
func newTap(c Command, cmd *exec.Cmd) *tap {
	t := &tap{tail: c.Errors, helper: c.Helper}
	stderr, isFile := c.Stderr.(*os.File)
	switch {
	case t.tail == nil:
		return t
	case !isFile:
		if c.Stderr != nil {
			cmd.Stderr = io.MultiWriter(c.Stderr, t.tail)
		} else {
			cmd.Stderr = t.tail
		}
		return t
	}
	info, err := stderr.Stat()
	switch {
	case err != nil:
		return t
	case info.Mode().IsRegular():
		t.file, t.from = stderr, info.Size()
		return t
	case !isTerminal(stderr):
		t.source, t.given, err = os.Pipe()
	case c.Terminal:
		t.source, t.given, t.size, err = openTerminal(stderr)
	default:
		return t
	}
	if err == nil {
		t.wake[0], t.wake[1], err = os.Pipe()
	}
	if err != nil {
		t.close()
		return &tap{}
	}
	t.to = stderr
	cmd.Stderr = t.given
	if stdout, ok := c.Stdout.(*os.File); ok {
		if out, err := stdout.Stat(); err == nil && os.SameFile(out, info) {
			cmd.Stdout = t.given
		}
	}
	return t
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), termiosGet)
	return err == nil
}

// start begins to hand on; the command has its end by now.
func (t *tap) start() {
	if t.source == nil {
		return
	}
	t.given.Close()
	t.given = nil
	t.pumped.Go(t.pump)
}

// pump hands on until every writer is gone, the reader is gone, or it is woken and nothing is left.
func (t *tap) pump() {
	buffer := make([]byte, 64<<10)
	woken, late := false, 0 // after the command's end no more than a pipe holds is its own
	for {
		wait := -1
		if woken {
			wait = 0
		}
		// A pipe without a reader shows as an error on its writing end (poll(2)), at once and not only with the next write.
		fds := []unix.PollFd{{Fd: int32(t.source.Fd()), Events: unix.POLLIN}, {Fd: int32(t.to.Fd())}, {Fd: int32(t.wake[0].Fd())}}
		n, err := unix.Poll(fds, wait)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil || (woken && n == 0) || late > tailSize:
			return
		case fds[1].Revents&unix.POLLERR != 0:
			t.stop()
			return
		case fds[0].Revents == 0:
			if woken {
				return
			}
			woken = fds[2].Revents != 0
			continue
		}
		read, err := unix.Read(int(t.source.Fd()), buffer)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) {
			continue
		}
		if read <= 0 { // the end of a pipe, or EIO where the last holder of a terminal is gone
			t.stop()
			return
		}
		_, _ = t.tail.Write(buffer[:read])
		if !writeAll(t.to, buffer[:read]) {
			t.stop()
			return
		}
		woken = woken || fds[2].Revents != 0
		if woken {
			late += read
		}
	}
}

// stop closes the reading end: a command that writes on is told so, as it would be without plimsoll.
func (t *tap) stop() {
	t.source.Close()
	t.source = nil
}

// writeAll writes everything, waiting where the other side is slow; false where it is gone.
func writeAll(f *os.File, data []byte) bool {
	for len(data) > 0 {
		n, err := unix.Write(int(f.Fd()), data)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLOUT}}, -1)
		case err != nil:
			return false
		}
		data = data[max(n, 0):]
	}
	return true
}

// finish is called when the command has ended: everything it has written is handed on before it returns. Processes it left behind may go on writing;
// a process that outlives plimsoll carries that.
func (t *tap) finish() {
	if t.file != nil {
		t.readFile()
	}
	if t.source == nil && t.wake[1] == nil {
		return
	}
	if t.wake[1] != nil {
		t.wake[1].Close()
		t.wake[1] = nil
	}
	t.pumped.Wait()
	if t.source != nil && !hungUp(t.source) {
		t.carry()
	}
	t.close()
}

func hungUp(f *os.File) bool {
	fds := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}}
	_, err := unix.Poll(fds, 0)
	return err == nil && fds[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0 && fds[0].Revents&unix.POLLIN == 0
}

// carry leaves a process behind that hands on for those the command left behind.
func (t *tap) carry() {
	if len(t.helper) == 0 {
		return
	}
	cmd := exec.Command(t.helper[0], append(t.helper[1:len(t.helper):len(t.helper)], "carry")...)
	cmd.Stdin, cmd.Stdout, cmd.SysProcAttr = t.source, t.to, detached()
	if cmd.Start() == nil {
		_ = cmd.Process.Release()
	}
}

func (t *tap) readFile() {
	// A new description of the same file: the command's offset is its own.
	f, err := os.Open("/proc/self/fd/" + decimal(int(t.file.Fd())))
	if err != nil {
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return
	}
	from := max(t.from, info.Size()-tailSize)
	if info.Size() < t.from { // it was truncated
		from = max(0, info.Size()-tailSize)
	}
	_, _ = io.Copy(t.tail, io.NewSectionReader(f, from, tailSize))
}

func (t *tap) close() {
	for _, f := range []*os.File{t.source, t.given, t.wake[0], t.wake[1]} {
		if f != nil {
			f.Close()
		}
	}
	t.source, t.given, t.wake = nil, nil, [2]*os.File{}
}
