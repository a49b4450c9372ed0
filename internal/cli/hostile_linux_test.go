package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plimsoll/plimsoll/internal/testkit/hostile"
)

// The corpus of hostile inputs is fixed by its seed; PLIMSOLL_HOSTILE_SEED tries another.
const hostileSeed = 24

// What one input may cost. Address sanitizers and the race detector multiply both.
const (
	hostileCPU    = 10 * time.Second
	hostileMemory = 500 << 20
)

// outcome is what one hostile input came to.
type outcome struct {
	Name   string
	Args   []string
	Exit   int
	CPU    time.Duration
	Stderr string
	Peak   int64 // resident bytes of the process so far
}

// TestHostileInputs carries out a command on each of more than five hundred inputs that want to break it, one after the other in a process of its own.
func TestHostileInputs(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestHostileChild$", "-test.v")
	cmd.Dir = t.TempDir()
	// On a busy machine garbage outgrows its collector (551 MB once where others had 470): what counts is what an input needs, so the collector hurries from there on.
	cmd.Env = append(os.Environ(), "PLIMSOLL_HOSTILE=1", "PATH=", "HOME="+cmd.Dir, "GOMAXPROCS=2", "GOMEMLIMIT=400MiB")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %.3000s", err, out)
	}
	var slowest, largest outcome
	n := 0
	for scan := bufio.NewScanner(bytes.NewReader(out)); scan.Scan(); {
		var o outcome
		if json.Unmarshal(scan.Bytes(), &o) != nil || o.Name == "" {
			continue
		}
		n++
		if o.CPU > slowest.CPU {
			slowest = o
		}
		if o.Peak > largest.Peak {
			largest = o
		}
		judge(t, o)
	}
	if n < 500 {
		t.Errorf("only %d inputs", n)
	}
	if slowest.CPU > hostileCPU || largest.Peak > hostileMemory {
		t.Errorf("%s takes %s, %s brings the process to %d MB", slowest.Name, slowest.CPU, largest.Name, largest.Peak>>20)
	}
	t.Logf("%d inputs; the slowest, %s, takes %s; at most %d MB resident", n, slowest.Name, slowest.CPU.Round(time.Millisecond), largest.Peak>>20)
	if _, err := os.Stat(filepath.Join(cmd.Dir, hostile.Executed)); err == nil {
		t.Error("code of an input was executed")
	}
}

// TestWhatHostileInputsCost carries out the same as processes of their own and writes what each kind costs at most (make robustness).
func TestWhatHostileInputsCost(t *testing.T) {
	if os.Getenv("PLIMSOLL_TABLE") == "" {
		t.Skip("make robustness")
	}
	table := newTable(t, "| inputs | of the kind | command of the costliest | exit | CPU, most | peak, most |")
	kinds := map[string]outcome{}
	count := map[string]int{}
	var order []string
	dir := t.TempDir()
	for _, in := range hostile.Corpus(hostileSeed) {
		folder := filepath.Join(dir, fmt.Sprint(len(count), "-", in.Name))
		lay(t, folder, in.Files)
		o, printed := asProcess(t, folder, in.Args)
		o.Name = in.Name
		judge(t, o)
		if err := hostile.CheckText([]byte(printed)); err != nil || o.CPU > hostileCPU || o.Peak > hostileMemory {
			t.Errorf("%s: %s, %d MB, %v", o.Name, o.CPU, o.Peak>>20, err)
		}
		kind, _, _ := strings.Cut(in.Name[:strings.LastIndexByte(in.Name, '-')], " ")
		worst, known := kinds[kind]
		if !known {
			order = append(order, kind)
		}
		if o.CPU > worst.CPU {
			worst.CPU, worst.Args, worst.Exit = o.CPU, o.Args, o.Exit
		}
		worst.Peak = max(worst.Peak, o.Peak)
		kinds[kind] = worst
		count[kind]++
		if err := os.RemoveAll(folder); err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range order {
		table.row(fmt.Sprint(count[kind]), kind, kinds[kind].Args[0], kinds[kind])
	}
}

// placed is how an error says where in a file something is wrong: an offset, a record by its number, or a field by its name.
var placed = regexp.MustCompile(`\b(byte|line) \d+\b|\b(event|segment|block|holder|devices?|node|operator) \d+\b|\boperator \w+\.\w+|\b[a-z0-9]+_[a-z0-9_]+\b|"[a-z]+"|` +
	`\b(` + oneWordFields + `)\b( of \w+Config)?(:| is | has | needs | \d)`)

// oneWordFields are the fields of jobs and configurations that are a single word.
const oneWordFields = "batch|seq|accumulate|depths|task|loss|attn|freeze|image|frames|optimizer|id2label"

func judge(t *testing.T, o outcome) {
	t.Helper()
	if strings.Contains(o.Stderr, "this is a bug") || o.Exit == exitFailure {
		t.Errorf("%s: %v exits with %d: %.600s", o.Name, o.Args, o.Exit, o.Stderr)
	}
	if err := hostile.CheckText([]byte(o.Stderr)); err != nil {
		t.Errorf("%s: %v", o.Name, err)
	}
	if o.Exit != exitUnreadable {
		return
	}
	for line := range strings.Lines(o.Stderr) {
		said, ours := strings.CutPrefix(line, "plimsoll: ")
		if !ours || summedUp.MatchString(said) {
			continue
		}
		if !names(o.Args, said) || !placed.MatchString(withoutFile(o.Args, said)) {
			t.Errorf("%s: the error names no file or no place in it: %s", o.Name, line)
		}
	}
}

// summedUp are lines that sum up errors that were told one by one.
var summedUp = regexp.MustCompile(`^\d+ of \d+ jobs could not be predicted|^and \d+ more`)

// inputs are the files a command reads, and what lies beside them.
func inputs(args []string) []string {
	var files []string
	for _, a := range args {
		if name, file := strings.CutPrefix(a, "@"); file && name != "page.html" {
			files = append(files, name, strings.TrimSuffix(name, ".pickle")+".holders.json.gz")
		}
	}
	return files
}

func names(args []string, said string) bool {
	return slices.ContainsFunc(inputs(args), func(file string) bool { return strings.Contains(said, file) })
}

// withoutFile is an error without the names of files, which are no places in them.
func withoutFile(args []string, said string) string {
	for _, file := range inputs(args) {
		said = strings.ReplaceAll(said, file, "")
	}
	return said
}

// TestHostileChild is the process of TestHostileInputs.
func TestHostileChild(t *testing.T) {
	if os.Getenv("PLIMSOLL_HOSTILE") == "" {
		t.Skip("started by TestHostileInputs")
	}
	debug.SetGCPercent(100) // as users run it
	seed := uint64(hostileSeed)
	fmt.Sscan(os.Getenv("PLIMSOLL_HOSTILE_SEED"), &seed)
	corpus := hostile.Corpus(seed)
	forgetPeak(t) // making the corpus takes more than reading it
	for _, in := range corpus {
		dir := t.TempDir()
		args := make([]string, len(in.Args))
		for i, a := range in.Args {
			if args[i] = a; strings.HasPrefix(a, "@") {
				args[i] = filepath.Join(dir, a[1:])
			}
		}
		for name, data := range in.Files {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var stdout, stderr bytes.Buffer
		env := Env{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Getenv: func(string) string { return "" }}
		before := cpu()
		o := outcome{Name: in.Name, Args: in.Args, Exit: Run(context.Background(), env, args)}
		o.CPU, o.Peak = cpu()-before, peak()
		o.Stderr = strings.ReplaceAll(stderr.String(), dir+string(filepath.Separator), "")
		if err := hostile.CheckText(stdout.Bytes()); err != nil {
			o.Exit, o.Stderr = exitFailure, "its answer: "+err.Error()
		}
		line, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("%s\n", line)
	}
}

func cpu() time.Duration {
	var u unix.Rusage
	unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peak is the most memory the process had since forgetPeak: getrusage's maximum cannot be set back, VmHWM can (proc_pid_clear_refs(5)).
func peak() int64 {
	status, _ := os.ReadFile("/proc/self/status")
	var kib int64
	for line := range strings.Lines(string(status)) {
		fmt.Sscanf(line, "VmHWM: %d kB", &kib)
	}
	return kib << 10
}

func forgetPeak(t *testing.T) {
	t.Helper()
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		t.Log("the peak counts from the start of the process:", err)
	}
}
