package nvml

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/units"
)

const smiCards = `0, GPU-aaaa, NVIDIA H200, 143771, 27004, 116146, 100, 41, Disabled, 580.82.07, 620
1, GPU-bbbb, NVIDIA H200, [N/A], [N/A], [N/A], [N/A], [Not Supported], Enabled, 580.82.07, [N/A]
`

const smiApps = `GPU-aaaa, 4242, 26990
GPU-aaaa, 5000, [N/A]
GPU-bbbb, [N/A], [Insufficient Permissions]
GPU-gone, 12, 3
`

// answers is an nvidia-smi that knows these answers.
func answers(cards, apps string, reservedKnown bool) SMI {
	return SMI{func(_ context.Context, args ...string) ([]byte, error) {
		switch {
		case strings.HasPrefix(args[0], "--query-compute"):
			return []byte(apps), nil
		case strings.Contains(args[0], "reserved") && !reservedKnown:
			return nil, errors.New(`Field "memory.reserved" is not a valid field to query.`)
		}
		return []byte(cards), nil
	}}
}

func TestNvidiaSmiIsReadWithItsNotAvailables(t *testing.T) {
	t.Parallel()
	snap, err := answers(smiCards, smiApps, true).Snapshot(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	a, b := snap.Devices[0], snap.Devices[1]
	if a.Total != 143771*units.MiB || a.Used != 27004*units.MiB || a.Reserved != 620*units.MiB || a.Utilization != 100 || a.Temperature != 41 {
		t.Errorf("first card: %+v", a)
	}
	if b.Total != 0 || b.Utilization != -1 || b.Temperature != -1 || len(snap.Problems) != 2 {
		t.Errorf("second card: %+v, problems %q", b, snap.Problems)
	}
	if len(a.Processes) != 2 || a.Processes[0] != (Process{4242, 26990 * units.MiB, true}) || a.Processes[1].Known || len(b.Processes) != 0 {
		t.Errorf("processes: %+v %+v", a.Processes, b.Processes)
	}
}

func TestAnNvidiaSmiWithoutReservedMemoryIsAskedAgain(t *testing.T) {
	t.Parallel()
	snap, err := answers("0, GPU-a, T4, 15360, 10, 15350, 0, 30, [N/A], 450.80.02\n", "", false).Snapshot(context.Background())
	if err != nil || len(snap.Devices) != 1 || snap.Devices[0].Reserved != 0 || snap.Driver != "450.80.02" {
		t.Errorf("%+v, %v", snap, err)
	}
}

func TestNonsenseFromNvidiaSmiIsAnError(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"NVIDIA-SMI has failed because it couldn't communicate\n", "x, GPU-a, T4, 1, 1, 1, 1, 1, 1, 1\n", "-3, GPU-a, T4, 1, 1, 1, 1, 1, 1, 1\n"} {
		if snap, err := answers(text, "", true).Snapshot(context.Background()); err == nil {
			t.Errorf("%q became %+v", text, snap)
		}
	}
}

func FuzzSMI(f *testing.F) {
	f.Add(smiCards, smiApps)
	f.Add("0, GPU-a, T4, 99999999999999999999, -1, 1, 1, 1, 1, 1\n", "GPU-a, 18446744073709551615, 18446744073709551615\n")
	f.Fuzz(func(t *testing.T, cards, apps string) {
		snap, err := readCards(strings.NewReader(cards))
		if err != nil {
			return
		}
		_ = readApps(strings.NewReader(apps), &snap)
		for _, d := range snap.Devices {
			if d.Total < 0 || d.Used < 0 || d.Free < 0 || d.Utilization < -1 {
				t.Fatalf("negative numbers: %+v", d)
			}
			for _, p := range d.Processes {
				if p.PID < 0 || p.Used < 0 || (!p.Known && p.Used != 0) {
					t.Fatalf("process %+v", p)
				}
			}
		}
	})
}
