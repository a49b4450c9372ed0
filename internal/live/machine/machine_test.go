package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/internal/live/nvml"
	"github.com/plimsoll/plimsoll/internal/live/proc"
	"github.com/plimsoll/plimsoll/internal/units"
)

type canned struct {
	snap nvml.Snapshot
	err  error
}

func (c canned) Snapshot(context.Context) (nvml.Snapshot, error) { return c.snap, c.err }

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestAReadingJoinsCardsWithTheProcessesOnThem(t *testing.T) {
	t.Parallel()
	snap := nvml.Snapshot{Origin: "nvml", Driver: "590", Devices: []nvml.Device{{
		UUID: "GPU-a", Instance: -1, Total: 80 * units.GiB, Used: 9 * units.GiB, Free: 71 * units.GiB,
		Processes: []nvml.Process{{PID: os.Getpid(), Used: 8 * units.GiB, Known: true}, {PID: 1 << 30, Known: false}},
	}}}
	m := &Machine{cards: canned{snap: snap}, system: proc.Open("/"), note: "asking nvidia-smi"}
	r, err := m.Read(context.Background(), now)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Cards) != 1 || len(r.Uses) != 2 || r.Cards[0].Used != 9*units.GiB {
		t.Fatalf("%+v", r)
	}
	if me := r.Uses[0]; me.Who.Command == "" || me.Who.Gone || me.Who.Hidden != "" || me.CardID != "GPU-a" || me.Torch != nil {
		t.Errorf("this test's own process: %+v", me)
	}
	if other := r.Uses[1]; other.Known || (!other.Who.Gone && other.Who.Hidden == "") {
		t.Errorf("a PID that does not exist: %+v", other)
	}
	if len(r.Problems) != 1 || !m.Slow() {
		t.Errorf("problems: %q", r.Problems)
	}
}

func TestADriverThatFailsGivesAnErrorAndNoReading(t *testing.T) {
	t.Parallel()
	m := &Machine{cards: canned{err: nvml.ErrLost}, system: proc.Open("/")}
	if _, err := m.Read(context.Background(), now); !errors.Is(err, nvml.ErrLost) {
		t.Errorf("got %v", err)
	}
}

func TestAMachineWithoutADriverSaysWhyInOneLine(t *testing.T) {
	t.Parallel()
	m, err := Open("")
	if err == nil {
		_ = m.Close()
		return // this machine has a driver
	}
	if !errors.Is(err, ErrNothing) || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
}

func TestAProcessUnderPlimsollRunTellsItsAllocatorsState(t *testing.T) {
	t.Parallel()
	runtimeDir := t.TempDir()
	folder := filepath.Join(runtimeDir, fmt.Sprintf("plimsoll-%d", os.Getuid()))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	status := fmt.Sprintf(`{"schema":"plimsoll.status/1","pid":%d,"rank":0,"step":17,"phase":"backward","allocated":100,"reserved":300,"peak_allocated":250,"device":"cpu","time":%d}`,
		os.Getpid(), time.Now().Unix())
	if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("run-%d.json", os.Getpid())), []byte(status), 0o600); err != nil {
		t.Fatal(err)
	}
	system := proc.Open("/")
	system.RuntimeDir = runtimeDir
	m := &Machine{system: system, cards: canned{snap: nvml.Snapshot{Devices: []nvml.Device{
		{UUID: "a", Processes: []nvml.Process{{PID: os.Getpid(), Used: units.MiB, Known: true}}}, {UUID: "b", Processes: []nvml.Process{{PID: os.Getpid(), Used: units.GiB, Known: true}}},
	}}}}
	r, err := m.Read(context.Background(), now)
	if err != nil {
		t.Fatal(err)
	}
	if torch := r.Uses[1].Torch; torch == nil || torch.Step != 17 || torch.Cached() != 200 || torch.Phase != "backward" || !r.Uses[1].Training() {
		t.Errorf("%+v", torch)
	}
	if torch := r.Uses[0].Torch; torch == nil || torch.Reserved != 0 || !r.Uses[0].Training() {
		t.Errorf("on the card where it only has a context: %+v", torch)
	}
}

// BenchmarkRead measures what asking the system about every process costs: core-% is the share of a core at one reading a second.
func BenchmarkRead(b *testing.B) {
	root := b.TempDir()
	snap := nvml.Snapshot{}
	for card := range 64 {
		snap.Devices = append(snap.Devices, nvml.Device{UUID: fmt.Sprint(card), Total: 80 * units.GiB})
	}
	for pid := 1000; pid < 1500; pid++ {
		folder := filepath.Join(root, "proc", fmt.Sprint(pid))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			b.Fatal(err)
		}
		stat := fmt.Sprintf("%d (python) S 1 1 1 0 -1 4194560 1 0 0 0 1 1 0 0 20 0 1 0 987654 1 1 1", pid)
		for name, text := range map[string]string{"stat": stat, "cmdline": "python\x00train.py", "cgroup": "0::/x", "environ": "RANK=1\x00WORLD_SIZE=8"} {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
				b.Fatal(err)
			}
		}
		d := &snap.Devices[pid%64]
		d.Processes = append(d.Processes, nvml.Process{PID: pid, Used: units.GiB, Known: true})
	}
	m := &Machine{cards: canned{snap: snap}, system: proc.Open(root)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Read(context.Background(), now); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(100*b.Elapsed().Seconds()/float64(b.N), "core-%")
}
