package cli

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/internal/testkit/hostile"
)

// What one of the inputs that once broke plimsoll may cost, as a process of its own.
const (
	rowCPU    = 2 * time.Second
	rowMemory = 200 << 20
)

// TestInputsOfTheFirstTrial carries out every command on every input that was not refused in one clear sentence when it was first tried. PLIMSOLL_TABLE names a
// file for the table of what each costs (make robustness).
func TestInputsOfTheFirstTrial(t *testing.T) {
	t.Parallel()
	table := newTable(t, "| row | input | command | exit | CPU | peak |")
	for _, row := range hostile.Rows() {
		dir := t.TempDir()
		lay(t, dir, row.Files)
		var worst outcome
		var commands []string
		for _, args := range row.Runs {
			o, printed := asProcess(t, dir, args)
			name := fmt.Sprintf("row %d, %s, plimsoll %v", row.Number, row.What, args)
			if !slices.Contains(row.Exits, o.Exit) || o.CPU > rowCPU || o.Peak > rowMemory {
				t.Errorf("%s: exit %d after %s and %d MB: %.400s", name, o.Exit, o.CPU, o.Peak>>20, printed)
			}
			if !strings.Contains(printed, row.Says) || row.Lacks != "" && strings.Contains(printed, row.Lacks) || strings.Contains(printed, "this is a bug") {
				t.Errorf("%s prints %.800s", name, printed)
			}
			if err := hostile.CheckText([]byte(printed)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			worst.CPU, worst.Peak, worst.Exit = max(worst.CPU, o.CPU), max(worst.Peak, o.Peak), max(worst.Exit, o.Exit)
			commands = append(commands, args[0])
		}
		table.row(fmt.Sprint(row.Number), row.What, strings.Join(slices.Compact(commands), ", "), worst)
	}
}

// lay writes files under a folder.
func lay(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	for name, data := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// asProcess carries out a command as users do, in a process of its own, and measures it. It returns what was printed too, without the folder's name.
func asProcess(t *testing.T, dir string, args []string) (outcome, string) {
	t.Helper()
	named := slices.Clone(args)
	for i, a := range named {
		if strings.HasPrefix(a, "@") {
			named[i] = filepath.Join(dir, a[1:])
		}
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(os.Args[0], named...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
	status := filepath.Join(t.TempDir(), "status")
	cmd.Env = []string{"PLIMSOLL_AS_COMMAND=1", "PLIMSOLL_PEAK=" + status, "HOME=" + dir, "PATH=" + os.Getenv("PATH"), "GOMAXPROCS=2"}
	_ = cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatalf("plimsoll %v did not start", args)
	}
	o := outcome{Args: args, Exit: cmd.ProcessState.ExitCode(), CPU: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	o.Peak = highWater(t, status)
	o.Stderr = strings.ReplaceAll(stderr.String(), dir+string(filepath.Separator), "")
	return o, strings.ReplaceAll(stdout.String(), dir+string(filepath.Separator), "") + o.Stderr
}

// table is a table of measurements in Markdown, or nothing where nobody asks for it.
type table struct{ f *os.File }

func newTable(t *testing.T, title string) *table {
	t.Helper()
	path := os.Getenv("PLIMSOLL_TABLE")
	if path == "" {
		return &table{}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	fmt.Fprintf(f, "%s\n|%s\n", title, strings.Repeat("---|", strings.Count(title, "|")-1))
	return &table{f}
}

func (x *table) row(first, what, command string, o outcome) {
	if x.f != nil {
		fmt.Fprintf(x.f, "| %s | %s | %s | %d | %.2f s | %d MB |\n", first, what, command, o.Exit, o.CPU.Seconds(), o.Peak>>20)
	}
}
