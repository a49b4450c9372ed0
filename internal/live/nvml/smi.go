package nvml

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/internal/units"
)

// SMI asks the command nvidia-smi, which is slower than the library by a factor of hundreds but speaks on every system.
type SMI struct {
	// Run starts nvidia-smi with arguments and gives its output.
	Run func(ctx context.Context, args ...string) ([]byte, error)
}

// NewSMI finds nvidia-smi; where WSL hides it, too.
func NewSMI() (SMI, error) {
	for _, name := range []string{"nvidia-smi", "/usr/lib/wsl/lib/nvidia-smi"} {
		if path, err := exec.LookPath(name); err == nil {
			return SMI{func(ctx context.Context, args ...string) ([]byte, error) { return runSMI(ctx, path, args) }}, nil
		}
	}
	return SMI{}, errors.New("nvidia-smi was not found")
}

// maxOutput bounds what is read from nvidia-smi.
const maxOutput = 4 << 20

func runSMI(ctx context.Context, path string, args []string) ([]byte, error) {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdout = &limited{&out, maxOutput}
	err := cmd.Run()
	if err != nil {
		return nil, fmt.Errorf("run nvidia-smi: %w: %s", err, firstLine(out.Bytes()))
	}
	return out.Bytes(), nil
}

// limited takes no more than so many bytes.
type limited struct {
	w    io.Writer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	if len(p) > l.left {
		return 0, errors.New("nvidia-smi printed more than a few MiB")
	}
	l.left -= len(p)
	return l.w.Write(p)
}

func firstLine(b []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	return line
}

const (
	gpuFields    = "index,uuid,name,memory.total,memory.used,memory.free,utilization.gpu,temperature.gpu,mig.mode.current,driver_version"
	reservedName = ",memory.reserved"
)

// Snapshot asks nvidia-smi for cards and processes.
func (s SMI) Snapshot(ctx context.Context) (Snapshot, error) {
	// memory.reserved is unknown to drivers before 510; they refuse the whole query.
	cards, err := s.Run(ctx, "--query-gpu="+gpuFields+reservedName, "--format=csv,noheader,nounits")
	if err != nil {
		cards, err = s.Run(ctx, "--query-gpu="+gpuFields, "--format=csv,noheader,nounits")
	}
	if err != nil {
		return Snapshot{}, err
	}
	snap, err := readCards(bytes.NewReader(cards))
	if err != nil {
		return Snapshot{}, err
	}
	apps, err := s.Run(ctx, "--query-compute-apps=gpu_uuid,pid,used_memory", "--format=csv,noheader,nounits")
	if err != nil {
		snap.Problems = append(snap.Problems, fmt.Sprintf("the processes could not be listed: %v", err))
		return snap, nil
	}
	return snap, readApps(bytes.NewReader(apps), &snap)
}

// readCards reads one line a card. Values the driver does not give are "[N/A]", "[Not Supported]", "[Insufficient Permissions]"…
func readCards(r io.Reader) (Snapshot, error) {
	snap := Snapshot{Origin: "nvidia-smi"}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		f := fields(lines.Text())
		if len(f) < 10 {
			return snap, fmt.Errorf("nvidia-smi line %d: %d fields instead of 10: %q", n, len(f), firstLine(lines.Bytes()))
		}
		index, err := strconv.Atoi(f[0])
		if err != nil || index < 0 || len(snap.Devices) >= 1024 {
			return snap, fmt.Errorf("nvidia-smi line %d: %q is not the number of a card", n, f[0])
		}
		d := Device{Index: index, UUID: f[1], Name: f[2], Instance: -1, Utilization: number(f[6]), Temperature: number(f[7])}
		var known [3]bool
		d.Total, known[0] = mebibytes(f[3])
		d.Used, known[1] = mebibytes(f[4])
		d.Free, known[2] = mebibytes(f[5])
		if len(f) > 10 {
			d.Reserved, _ = mebibytes(f[10])
		}
		snap.Driver = f[9]
		if known != [3]bool{true, true, true} {
			snap.Problems = append(snap.Problems, fmt.Sprintf("GPU %d: nvidia-smi does not say how much memory is in use", index))
		}
		if f[8] == "Enabled" {
			snap.Problems = append(snap.Problems, fmt.Sprintf("GPU %d is in MIG mode; its instances can only be told apart through libnvidia-ml", index))
		}
		snap.Devices = append(snap.Devices, d)
	}
	return snap, lines.Err()
}

// readApps puts one process a line on its device.
func readApps(r io.Reader, snap *Snapshot) error {
	at := map[string]int{}
	for i, d := range snap.Devices {
		at[d.UUID] = i
	}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		if strings.TrimSpace(lines.Text()) == "" || strings.HasPrefix(lines.Text(), "No running") {
			continue
		}
		f := fields(lines.Text())
		if len(f) < 3 {
			return fmt.Errorf("nvidia-smi processes, line %d: %d fields instead of 3", n, len(f))
		}
		pid, err := strconv.Atoi(f[1])
		i, listed := at[f[0]]
		if err != nil || pid < 0 || !listed {
			continue // "[N/A]" in a container, or a card that has just gone
		}
		used, known := mebibytes(f[2])
		snap.Devices[i].Processes = merge(snap.Devices[i].Processes, []Process{{pid, used, known}})
	}
	return lines.Err()
}

func fields(line string) []string {
	out := strings.Split(line, ",")
	for i := range out {
		out[i] = strings.TrimSpace(out[i])
	}
	return out
}

// mebibytes reads a number of MiB; anything else is unknown.
func mebibytes(s string) (units.Bytes, bool) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n > uint64(1024*units.TiB/units.MiB) {
		return 0, false
	}
	return units.Bytes(n) * units.MiB, true
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return -1
	}
	return n
}
