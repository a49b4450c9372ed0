//go:build linux && (amd64 || arm64) && !nogpu

package nvml

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/units"
)

// fake compiles the stand-in library.
func fake(t *testing.T, flags ...string) string {
	t.Helper()
	compiler, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler to build the stand-in driver with")
	}
	out := filepath.Join(t.TempDir(), "libfakenvml.so")
	args := append(flags, "-shared", "-fPIC", "-o", out, filepath.Join("testdata", "fakenvml.c"))
	if message, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		t.Fatalf("compile: %v\n%s", err, message)
	}
	return out
}

func open(t *testing.T, flags ...string) *Driver {
	t.Helper()
	d, err := Open(fake(t, flags...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func TestASnapshotShowsWholeCardsAndMIGInstancesAndNamesLostCards(t *testing.T) {
	t.Parallel()
	snap, err := open(t).Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if snap.Driver != "590.44.01" || snap.CUDA != "13.1" || len(snap.Devices) != 3 {
		t.Fatalf("driver %q, CUDA %q, %d devices", snap.Driver, snap.CUDA, len(snap.Devices))
	}
	whole := snap.Devices[0]
	if whole.Total != 80*units.GiB || whole.Used != 10140*units.MiB || whole.Reserved != 600*units.MiB || whole.Used+whole.Free+whole.Reserved != whole.Total {
		t.Errorf("memory of the whole card: %+v", whole)
	}
	if whole.Utilization != 93 || whole.Temperature != 61 || whole.Instance != -1 {
		t.Errorf("state of the whole card: %+v", whole)
	}
	if a, b := snap.Devices[1], snap.Devices[2]; a.UUID != "MIG-1-5" || a.Instance != 5 || b.Instance != 9 || b.Index != 1 || b.Utilization != -1 {
		t.Errorf("instances: %+v %+v", a, b)
	}
	if len(snap.Problems) != 1 || !strings.Contains(snap.Problems[0], "GPU 2") || !strings.Contains(snap.Problems[0], "lost") {
		t.Errorf("problems: %q", snap.Problems)
	}
}

func TestProcessListsAreReadWhole(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{nil, {"-DOLD"}} {
		snap, err := open(t, flags...).Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		processes := snap.Devices[0].Processes
		if len(processes) != 200 {
			t.Fatalf("%d processes, want 200", len(processes))
		}
		if p := processes[0]; p.PID != 100 || p.Used != 80*units.MiB {
			t.Errorf("a process in both lists: %+v, want the larger amount", p)
		}
		if p := processes[199]; p.Known {
			t.Errorf("an amount of 2^64-1 was taken for a number: %+v", p)
		}
	}
}

func TestAnOldDriverIsReadWithoutItsMissingFunctions(t *testing.T) {
	t.Parallel()
	d := open(t, "-DOLD")
	snap, err := d.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if len(snap.Devices) != 2 || snap.Devices[1].Instance != -1 || snap.Devices[0].Used != 10740*units.MiB || snap.Devices[0].Reserved != 0 {
		t.Errorf("devices: %+v", snap.Devices)
	}
	health, err := d.Health()
	if err != nil || len(health) != 2 {
		t.Fatalf("health: %v, %v", health, err)
	}
	if h := health[0]; h.ECC != nil || h.Persistence != nil || h.RemapPending != nil || h.Uncorrected != nil || h.ComputeMode != "" {
		t.Errorf("an old driver says nothing about these: %+v", h)
	}
}

func TestHealthIsWhatTheDriverSays(t *testing.T) {
	t.Parallel()
	health, err := open(t).Health()
	if err != nil || len(health) != 2 {
		t.Fatalf("health: %v, %v", health, err)
	}
	h := health[0]
	if *h.Uncorrected != 2 || !*h.RemapPending || *h.RemapFailure || *h.Persistence || !*h.ECC || h.RetiredPending != nil {
		t.Errorf("%+v", h)
	}
	if h.Capability != "9.0" || h.ComputeMode != "exclusive" || *h.MIG || !*health[1].MIG {
		t.Errorf("%+v", h)
	}
}

func TestADriverThatCannotBeUsedSaysWhy(t *testing.T) {
	t.Parallel()
	if _, err := Open("libno-such-driver.so.1"); !errors.Is(err, ErrNoLibrary) {
		t.Errorf("missing library: %v", err)
	}
	if _, err := Open("libc.so.6"); !errors.Is(err, ErrNoLibrary) {
		t.Errorf("a library that is not NVML: %v", err)
	}
	if _, err := Open(fake(t, "-DMISMATCH")); !errors.Is(err, ErrMismatch) {
		t.Errorf("mismatch: %v", err)
	}
}
