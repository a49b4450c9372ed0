package runner

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test binary stand for plimsoll: with RUNNER_TEST set it runs its arguments as a command, or helps another that does.
func TestMain(m *testing.M) {
	if os.Getenv("RUNNER_TEST") == "" {
		os.Exit(m.Run())
	}
	if len(os.Args) > 1 && os.Args[1] == "helper" {
		_ = Help(os.Args[2:])
		os.Exit(0)
	}
	c := Command{Args: os.Args[1:], Env: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Errors: &Tail{}, Helper: []string{os.Args[0], "helper"}}
	if os.Getenv("RUNNER_FOLDER") != "" {
		c.Remove, _ = Folder()
	}
	out, err := Run(c)
	if err != nil {
		os.Stderr.WriteString(err.Error())
	}
	os.Exit(out.Code)
}

func TestTheOutcomeIsTheCommands(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		script string
		code   int
		signal syscall.Signal
	}{
		{"exit 0", 0, 0},
		{"exit 42", 42, 0},
		{"kill -9 $$", 137, syscall.SIGKILL},
		{"kill -15 $$", 143, syscall.SIGTERM},
	} {
		out, err := Run(Command{Args: []string{"sh", "-c", c.script}, Env: os.Environ()})
		if err != nil || out.Code != c.code || out.Signal != c.signal {
			t.Errorf("%s: %+v, %v", c.script, out, err)
		}
	}
}

func TestACommandThatIsNotThereGives127(t *testing.T) {
	t.Parallel()
	out, err := Run(Command{Args: []string{"/no/such/program"}})
	if err == nil || out.Code != 127 {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestInputAndOutputAreTheCommandsOwn(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	_, err := Run(Command{Args: []string{"sh", "-c", "tr a-z A-Z; echo problem >&2"}, Env: os.Environ(),
		Stdin: strings.NewReader("words"), Stdout: &stdout, Stderr: &stderr})
	if err != nil || stdout.String() != "WORDS" || stderr.String() != "problem\n" {
		t.Errorf("stdout %q, stderr %q, %v", stdout.String(), stderr.String(), err)
	}
}

// started runs a shell script under this package in a process of its own and waits for its first line.
func started(t *testing.T, script string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "sh", "-c", script)
	cmd.Env = append(os.Environ(), "RUNNER_TEST=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal: signals come from kill alone
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(pipe).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return cmd, strings.TrimSpace(line)
}

func TestSignalsReachTheCommandAndItsAnswerIsReturned(t *testing.T) {
	t.Parallel()
	for signal, code := range map[syscall.Signal]int{syscall.SIGTERM: 9, syscall.SIGINT: 8, syscall.SIGUSR1: 7} {
		cmd, _ := started(t, "trap 'exit 9' TERM; trap 'exit 8' INT; trap 'exit 7' USR1; echo ready; while :; do sleep 0.02; done")
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != code {
			t.Errorf("%v: exit code %d, want %d", signal, got, code)
		}
	}
}

func TestTheCommandDiesWithAKilledParent(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux can promise this")
	}
	cmd, line := started(t, "echo $$; while :; do sleep 0.02; done")
	child, err := strconv.Atoi(line)
	if err != nil {
		t.Fatal(err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	for range 500 {
		if syscall.Kill(child, 0) != nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	_ = syscall.Kill(child, syscall.SIGKILL)
	t.Error("the child lives on")
}

func TestAStoppedCommandLeavesNoProcessBehind(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	pids := filepath.Join(t.TempDir(), "pids")
	// A launcher that does not end its worker, and a worker that does not want to end.
	worker := "trap '' TERM; echo $$ > " + pids + "; while :; do sleep 0.02; done"
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		for range 500 {
			if data, _ := os.ReadFile(pids); len(data) > 0 {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	out, err := Run(Command{Args: []string{"sh", "-c", "sh -c \"$0\" & wait", worker}, Env: os.Environ(), Stop: stop})
	if err != nil || out.Signal != syscall.SIGTERM || out.Asked != 0 {
		t.Errorf("%+v, %v", out, err)
	}
	data, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	for range 500 {
		if _, ok := read(pid); !ok || zombie(pid) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	t.Error("the worker lives on")
}

func zombie(pid int) bool {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(data), ") Z ")
}
