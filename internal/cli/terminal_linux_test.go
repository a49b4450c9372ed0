package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plimsoll/plimsoll/internal/live/watch"
	"github.com/plimsoll/plimsoll/internal/script/probe/probetest"
	"github.com/plimsoll/plimsoll/internal/units"
)

// TestMain lets the test binary stand for plimsoll: with PLIMSOLL_AS_COMMAND set it carries out its arguments, on a machine with a card where it says so.
func TestMain(m *testing.M) {
	switch os.Getenv("PLIMSOLL_AS_COMMAND") {
	case "":
		debug.SetGCPercent(400) // memory is cheaper here than collecting it; commands run as their own process collect as usual
		os.Exit(m.Run())
	case "with a card":
		env := OS()
		env.Cards = func() []watch.Card { return []watch.Card{h200With(80 * units.GiB)} }
		os.Exit(Run(context.Background(), env, os.Args[1:]))
	default:
		code := Run(context.Background(), OS(), os.Args[1:])
		if file := os.Getenv("PLIMSOLL_PEAK"); file != "" { // what getrusage says counts the test's own memory in
			status, _ := os.ReadFile("/proc/self/status")
			_ = os.WriteFile(file, status, 0o600)
		}
		os.Exit(code)
	}
}

// terminal is a pseudo-terminal: what a person types goes into master, programs run on the other side.
type terminal struct {
	master, programs *os.File
	shown            strings.Builder
}

func openTerminal(t *testing.T) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo-terminals here: ", err)
	}
	t.Cleanup(func() { master.Close() })
	// Through SyscallConn: Fd would make reading it block for good.
	connection, err := master.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	number, unlocked, named := 0, error(nil), error(nil)
	err = connection.Control(func(fd uintptr) {
		unlocked = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0)
		number, named = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
	})
	if err := errors.Join(err, unlocked, named); err != nil {
		t.Fatal(err)
	}
	programs, err := os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { programs.Close() })
	return &terminal{master: master, programs: programs}
}

// settings are those that stty shows.
func (x *terminal) settings(t *testing.T) unix.Termios {
	t.Helper()
	s, err := unix.IoctlGetTermios(int(x.programs.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *s
}

// start runs a command in the foreground of the terminal, in a session of its own.
func (x *terminal) start(t *testing.T, environ []string, command ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), environ...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = x.programs, x.programs, x.programs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// wait reads what the terminal shows until the word is there; empty: until the command has ended. It returns the code a shell would see.
func (x *terminal) wait(t *testing.T, cmd *exec.Cmd, word string) int {
	t.Helper()
	ended := make(chan error, 1)
	if word == "" {
		go func() { ended <- cmd.Wait() }()
	}
	buffer := make([]byte, 4096)
	for {
		_ = x.master.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		n, err := x.master.Read(buffer)
		x.shown.Write(buffer[:n])
		if word != "" && strings.Contains(x.shown.String(), word) {
			return 0
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		select {
		case <-ended:
			status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
			if status.Signaled() {
				return 128 + int(status.Signal())
			}
			return status.ExitStatus()
		default:
		}
	}
}

const ctrlC = "\x03"

func (x *terminal) press(t *testing.T, keys string) {
	t.Helper()
	if _, err := x.master.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

func TestCtrlCInATerminalIsTheScripts(t *testing.T) {
	t.Parallel()
	python := probetest.Python(t)
	patient := `
import signal, sys, time, torch
pressed = []
signal.signal(signal.SIGINT, lambda *args: pressed.append(1))
print("ready", flush=True)
while not pressed:
    time.sleep(0.02)
time.sleep(1)
print(f"pressed {len(pressed)} times", flush=True)
sys.exit(7)
`
	plain := "import time, torch\nprint('ready', flush=True)\ntime.sleep(600)\n"
	for _, c := range []struct{ name, script, shows string }{
		{"a script that catches it", patient, "pressed 1 times"},
		{"a script that does not", plain, "KeyboardInterrupt"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			codes := map[string]int{}
			for _, how := range []string{"bare", "run", "run --fit"} {
				x := openTerminal(t)
				before := x.settings(t)
				command := []string{python, "-c", c.script}
				if how != "bare" {
					command = append(append(append([]string{os.Args[0]}, strings.Fields(how)...), "--"), command...)
				}
				cmd := x.start(t, []string{"PLIMSOLL_AS_COMMAND=1"}, command...)
				x.wait(t, cmd, "ready")
				x.press(t, ctrlC)
				codes[how] = x.wait(t, cmd, "")
				if shown := x.shown.String(); !strings.Contains(shown, c.shows) {
					t.Errorf("%s: the terminal shows\n%s", how, shown)
				}
				if after := x.settings(t); after != before {
					t.Errorf("%s: the terminal's settings were %+v and are %+v", how, before, after)
				}
			}
			if codes["run"] != codes["bare"] || codes["run --fit"] != codes["bare"] {
				t.Errorf("exit codes %v", codes)
			}
		})
	}
}

func TestCtrlCWhileLookingAheadEndsTheRun(t *testing.T) {
	t.Parallel()
	python := probetest.Python(t)
	begun := filepath.Join(t.TempDir(), "begun")
	script := "import time, torch\nopen('" + begun + "', 'a').write('once ')\ntime.sleep(600)\n"
	x := openTerminal(t)
	cmd := x.start(t, []string{"PLIMSOLL_AS_COMMAND=with a card"}, os.Args[0], "run", "--fit", "--", python, "-c", script)
	for data := []byte{}; len(data) == 0; data, _ = os.ReadFile(begun) {
		time.Sleep(20 * time.Millisecond)
	}
	x.press(t, ctrlC)
	if code := x.wait(t, cmd, ""); code != 130 {
		t.Errorf("exit code %d; the terminal shows\n%s", code, x.shown.String())
	}
	if data, _ := os.ReadFile(begun); string(data) != "once " {
		t.Errorf("the script was started anew: %q", data)
	}
}

func TestATerminationIsTheScripts(t *testing.T) {
	t.Parallel()
	python := probetest.Warm(t)
	plain := fewSteps + "import time\nprint('ready', flush=True)\ntime.sleep(600)\n"
	for script, code := range map[string]int{plain: 143, "import signal, sys\nsignal.signal(signal.SIGTERM, lambda *args: sys.exit(9))\n" + plain: 9} {
		for _, flags := range []string{"run", "run --fit"} {
			x := openTerminal(t)
			cmd := x.start(t, []string{"PLIMSOLL_AS_COMMAND=1"}, append(append([]string{os.Args[0]}, strings.Fields(flags)...), "--", python, "-c", script)...)
			x.wait(t, cmd, "ready")
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			got := x.wait(t, cmd, "")
			if shown := x.shown.String(); got != code || strings.Count(shown, "plimsoll:") != 1 || strings.Count(shown, "ready") != 1 {
				t.Errorf("%s: exit code %d, want %d; the terminal shows\n%s", flags, got, code, shown)
			}
		}
	}
}

func TestWithoutAPlaceForTemporaryFilesTheCommandStillRuns(t *testing.T) {
	t.Parallel()
	for _, fit := range []bool{false, true} {
		args := []string{"run", "--", "sh", "-c", "echo ran; exit 5"}
		if fit {
			args = append([]string{"run", "--fit"}, args[1:]...)
		}
		cmd := exec.Command(os.Args[0], args...)
		cmd.Env = append(os.Environ(), "PLIMSOLL_AS_COMMAND=1", "TMPDIR=/proc") // where nothing can be made, whoever asks
		out, _ := cmd.CombinedOutput()
		if text := string(out); cmd.ProcessState.ExitCode() != 5 || !strings.HasPrefix(text, "ran\n") {
			t.Errorf("exit code %d, output %q", cmd.ProcessState.ExitCode(), text)
		}
	}
}

const ctrlZ = "\x1a"

func TestAStoppedCommandGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	// A shell with job control stands for the person's: it starts plimsoll in a group of its own and brings it back with fg.
	x := openTerminal(t)
	inner := "i=0; while [ $i -lt 400 ]; do i=$((i+1)); [ $i = 5 ] && echo going >&2; sleep 0.01; done; echo through; exit 3"
	cmd := x.start(t, []string{"PLIMSOLL_AS_COMMAND=1", "INNER=" + inner, "PLIMSOLL=" + os.Args[0]}, "bash", "-mc", `"$PLIMSOLL" run -- sh -c "$INNER"; echo "stopped $?"; fg >/dev/null; echo "ended $?"`)
	x.wait(t, cmd, "going")
	x.press(t, ctrlZ)
	x.wait(t, cmd, "stopped 148")
	if code := x.wait(t, cmd, ""); code != 0 || !strings.Contains(x.shown.String(), "through") || !strings.Contains(x.shown.String(), "ended 3") {
		t.Errorf("code %d, the terminal shows\n%s", code, x.shown.String())
	}
}

func TestAReaderThatHasGoneDoesNotChangeTheExitCode(t *testing.T) {
	t.Parallel()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	reader.Close()
	defer writer.Close()
	cmd := exec.Command(os.Args[0], "run", "--", "sh", "-c", "exit 3")
	cmd.Env = append(os.Environ(), "PLIMSOLL_AS_COMMAND=1")
	cmd.Stderr = writer
	if _ = cmd.Run(); cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("%v", cmd.ProcessState)
	}
}
