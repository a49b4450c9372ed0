package runner

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// plimsoll is the test binary as a plimsoll that runs a shell script and looks after it.
func plimsoll(script string, environ ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "sh", "-c", script)
	cmd.Env = append(append(os.Environ(), "RUNNER_TEST=1"), environ...)
	return cmd
}

// eventually waits for something that other processes bring about.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for range 2000 {
		if holds() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("never: " + what)
}

func number(t *testing.T, file string) (n int) {
	t.Helper()
	eventually(t, file, func() bool {
		data, _ := os.ReadFile(file)
		var err error
		n, err = strconv.Atoi(strings.TrimSpace(string(data)))
		return err == nil && bytes.HasSuffix(data, []byte("\n"))
	})
	return n
}

func running(pid int) bool {
	_, ok := read(pid)
	return ok && !zombie(pid)
}

func TestRanksDieWithAKilledPlimsollAndDaemonsDoNot(t *testing.T) {
	t.Parallel()
	dir, place := t.TempDir(), t.TempDir()
	// A rank in a session of its own, as torchrun starts them, and a daemon that has left its parent.
	script := `cd ` + dir + `
setsid sh -c 'echo $$ > rank; while :; do sleep 0.05; done' & wait_for=$!
(setsid sh -c 'echo $$ > daemon; while :; do sleep 0.05; done' &)
sleep 0.3; echo up > up; while :; do sleep 0.05; done`
	cmd := plimsoll(script, "TMPDIR="+place, "RUNNER_FOLDER=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	rank, daemon := number(t, filepath.Join(dir, "rank")), number(t, filepath.Join(dir, "daemon"))
	t.Cleanup(func() { kill(daemon) })
	eventually(t, "the script is up", func() bool { _, err := os.Stat(filepath.Join(dir, "up")); return err == nil })
	if left, _ := filepath.Glob(filepath.Join(place, "plimsoll-*")); len(left) != 1 {
		t.Fatalf("temporary folders: %v", left)
	}
	time.Sleep(3 * lookLater / 2) // the guard has looked since
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	eventually(t, "the rank is gone", func() bool { return !running(rank) })
	eventually(t, "the folder is gone", func() bool { left, _ := filepath.Glob(filepath.Join(place, "plimsoll-*")); return len(left) == 0 })
	if !running(daemon) {
		t.Error("the daemon was killed")
	}
}

func TestAFolderOfAKilledRunIsRemovedByTheNext(t *testing.T) {
	place := t.TempDir()
	t.Setenv("TMPDIR", place)
	mine, err := Folder()
	if err != nil {
		t.Fatal(err)
	}
	kept, err := Folder()
	if err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(place, "plimsoll-left")
	for folder, who := range map[string]string{left: strconv.Itoa(os.Getpid()) + " 1", kept: "1 1"} { // numbers that others have by now
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, owner), []byte(who), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	Keep(kept)
	if _, err := Folder(); err != nil {
		t.Fatal(err)
	}
	for folder, there := range map[string]bool{mine: true, kept: true, left: false} {
		if _, err := os.Stat(folder); (err == nil) != there {
			t.Errorf("%s: %v", folder, err)
		}
	}
}

func TestAClosedPipeIsTheCommandsToNotice(t *testing.T) {
	t.Parallel()
	script := "while echo line >&2; do sleep 0.005; done; exit 3" // dies of SIGPIPE, or sees that echo fails
	codes := map[bool]int{}
	for _, observed := range []bool{false, true} {
		cmd := exec.Command("sh", "-c", script)
		if observed {
			cmd = plimsoll(script)
		}
		reader, writer, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = writer
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		writer.Close()
		line := make([]byte, 5)
		if _, err := io.ReadFull(reader, line); err != nil || string(line) != "line\n" {
			t.Fatalf("%q %v", line, err)
		}
		reader.Close()
		_ = cmd.Wait()
		status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
		codes[observed] = status.ExitStatus()
		if status.Signaled() {
			codes[observed] = 128 + int(status.Signal())
		}
	}
	if codes[true] != codes[false] {
		t.Errorf("exit code %d, without plimsoll %d", codes[true], codes[false])
	}
}

func TestALotOfOutputPassesUnchanged(t *testing.T) {
	t.Parallel()
	const size = 64 << 20
	script := "head -c " + strconv.Itoa(size) + " /dev/zero | tr '\\0' 'x' >&2"
	for name, shared := range map[string]bool{"stderr": false, "both": true} {
		cmd := plimsoll(script)
		sum, counted := sha256.New(), &counter{}
		out, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if shared {
			cmd.Stdout = cmd.Stderr
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.MultiWriter(sum, counted), out)
		if err := cmd.Wait(); err != nil || counted.n != size {
			t.Errorf("%s: %d bytes, %v", name, counted.n, err)
		}
		if most := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss; most > 60<<10 {
			t.Errorf("%s: %d KiB", name, most)
		}
	}
}

type counter struct{ n int }

func (c *counter) Write(p []byte) (int, error) { c.n += len(p); return len(p), nil }

func TestTheOrderOfOutputAndErrorsStays(t *testing.T) {
	t.Parallel()
	out, err := func() ([]byte, error) {
		return plimsoll("i=0; while [ $i -lt 300 ]; do echo $i; i=$((i+1)); echo $i >&2; i=$((i+1)); done").CombinedOutput()
	}()
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		if line != strconv.Itoa(i) {
			t.Fatalf("line %d is %s", i, line)
		}
	}
}

func TestWhatACommandLeavesBehindGoesOnWriting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := plimsoll("(while [ ! -e " + dir + "/go ]; do sleep 0.01; done; echo later >&2; echo written > " + dir + "/written) & echo now >&2")
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = writer
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	if err := cmd.Wait(); err != nil { // it does not wait for what was left behind
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(reader)
	if err != nil || string(all) != "now\nlater\n" {
		t.Errorf("%q, %v", all, err)
	}
}

// realTerminal is a terminal as a person has one, with its other side.
func realTerminal(t *testing.T) (person, programs *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo-terminals here: ", err)
	}
	person = os.NewFile(uintptr(fd), "ptmx")
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 31, Col: 97})
	}
	if err == nil {
		programs, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { person.Close(); programs.Close() })
	return person, programs
}

func TestATerminalStaysATerminalAndIsReadAlong(t *testing.T) {
	t.Parallel()
	person, programs := realTerminal(t)
	tail := &Tail{}
	script := `test -t 1 && test -t 2 && echo both; stty size <&2; printf 'CUDA error: out of memory\n' >&2`
	out, err := Run(Command{Args: []string{"sh", "-c", script}, Env: os.Environ(), Stdout: programs, Stderr: programs, Errors: tail, Terminal: true})
	if err != nil || out.Code != 0 {
		t.Fatalf("%+v, %v", out, err)
	}
	want := "both\n31 97\nCUDA error: out of memory\n"
	if got := string(tail.Bytes()); got != want {
		t.Errorf("read along %q", got)
	}
	want = strings.ReplaceAll(want, "\n", "\r\n") // the real terminal turns the lines, once
	shown := make([]byte, len(want))
	if n, err := io.ReadFull(person, shown); err != nil || string(shown) != want { // it may come in pieces
		t.Errorf("shown %q, %v", shown[:n], err)
	}
}

func TestAFileIsReadAfterwardsAndWrittenByTheCommandItself(t *testing.T) {
	t.Parallel()
	f, err := os.OpenFile(filepath.Join(t.TempDir(), "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("earlier: out of memory\n"); err != nil {
		t.Fatal(err)
	}
	tail := &Tail{}
	if _, err := Run(Command{Args: []string{"sh", "-c", "test -f /proc/self/fd/2 && echo a file >&2"}, Env: os.Environ(), Stderr: f, Errors: tail}); err != nil {
		t.Fatal(err)
	}
	if got := string(tail.Bytes()); got != "a file\n" {
		t.Errorf("read %q", got)
	}
}

func TestManyShortRunsLeaveNothingBehind(t *testing.T) {
	place := t.TempDir()
	t.Setenv("TMPDIR", place)
	before := descriptors(t)
	runs := 100
	fmt.Sscan(os.Getenv("PLIMSOLL_RUNS"), &runs)
	for range runs {
		folder, err := Folder()
		if err != nil {
			t.Fatal(err)
		}
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := Run(Command{Args: []string{"true"}, Env: os.Environ(), Stderr: w, Errors: &Tail{}})
		if err != nil || out.Code != 0 {
			t.Fatalf("%+v, %v", out, err)
		}
		r.Close()
		w.Close()
		os.RemoveAll(folder)
	}
	if children, _ := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid())); len(strings.Fields(string(children))) > 1 {
		t.Errorf("children are left: %s", children)
	}
	if after := descriptors(t); after > before+4 {
		t.Errorf("%d open files, before %d", after, before)
	}
	if left, _ := filepath.Glob(filepath.Join(place, "*")); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("needs /proc")
	}
	return len(all)
}

func TestTheTailKeepsTheEnd(t *testing.T) {
	t.Parallel()
	tail := &Tail{}
	for i := range 300_000 {
		_, _ = tail.Write([]byte(strconv.Itoa(i) + "\n"))
	}
	if got := tail.Bytes(); len(got) != tailSize || !bytes.HasSuffix(got, []byte("299998\n299999\n")) {
		t.Errorf("%d bytes, %q", len(got), got[len(got)-20:])
	}
	_, _ = tail.Write(bytes.Repeat([]byte("y"), 3*tailSize))
	if got := tail.Bytes(); len(got) != tailSize || got[0] != 'y' {
		t.Errorf("%d bytes", len(got))
	}
}

func TestSignalsInAnyOrderReachTheCommand(t *testing.T) {
	t.Parallel()
	script := "for s in HUP INT QUIT USR1 USR2; do trap \"echo $s\" $s; done; trap 'echo TERM; exit 5' TERM; echo ready; while :; do sleep 0.01; done"
	names := map[string]syscall.Signal{"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "TERM": syscall.SIGTERM}
	for _, order := range []string{"HUP INT QUIT USR1 USR2 TERM", "USR2 USR2 INT HUP INT QUIT TERM", "TERM"} {
		cmd := plimsoll(script)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		pipe, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(pipe)
		lines.Scan()
		for name := range strings.FieldsSeq(order) {
			if signal.Ignored(names[name]) {
				continue // these tests run under nohup, and what it protects stays protected
			}
			if err := cmd.Process.Signal(names[name]); err != nil {
				t.Fatal(err)
			}
			if !lines.Scan() || lines.Text() != name {
				t.Fatalf("%s: sent %s, the command got %q", order, name, lines.Text())
			}
		}
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 5 {
			t.Errorf("%s: exit code %d", order, code)
		}
	}
}

func TestWhatNohupProtectsStaysProtected(t *testing.T) {
	t.Parallel()
	// trap '' ignores a signal for all that follow, as nohup does.
	cmd := exec.Command("sh", "-c", "trap '' HUP; exec \"$0\" sh -c 'echo ready; read line; kill -HUP $$; echo survived'", os.Args[0])
	cmd.Env = append(os.Environ(), "RUNNER_TEST=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan()
	_ = cmd.Process.Signal(syscall.SIGHUP)
	_, _ = io.WriteString(in, "go\n")
	if !lines.Scan() || lines.Text() != "survived" {
		t.Errorf("%q", lines.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestAStopSentToPlimsollStopsTheCommandToo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := plimsoll("echo $$ > " + dir + "/pid; while [ ! -e " + dir + "/end ]; do sleep 0.01; done; exit 4")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // in the session of this test: a group nobody waits for cannot be stopped
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	child := number(t, filepath.Join(dir, "pid"))
	state := func(pid int) string {
		data, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		_, rest, _ := strings.Cut(string(data), ") ")
		return rest[:min(1, len(rest))]
	}
	_ = cmd.Process.Signal(syscall.SIGTSTP)
	eventually(t, "both are stopped", func() bool { return state(child) == "T" && state(cmd.Process.Pid) == "T" })
	_ = cmd.Process.Signal(syscall.SIGCONT)
	eventually(t, "both go on", func() bool { return state(child) != "T" && state(cmd.Process.Pid) != "T" })
	if err := os.WriteFile(filepath.Join(dir, "end"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 4 {
		t.Errorf("exit code %d", code)
	}
}
