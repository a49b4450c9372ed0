package machine

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/internal/nvml"
	"github.com/plimsoll/plimsoll/internal/proc"
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
