// Package machine looks at the machine this program runs on.
//
// It takes the driver's snapshots and what the system knows of the processes in them and returns sample.Readings, and for a health report
// doctor.Facts. It refuses to start where neither NVIDIA's library, nvidia-smi nor the files of AMD's driver answer, with one line that says why and what to
// do; once started, what cannot be read is a problem in the reading.
package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/plimsoll/plimsoll/internal/live/amdgpu"
	"github.com/plimsoll/plimsoll/internal/live/nvml"
	"github.com/plimsoll/plimsoll/internal/live/proc"
	"github.com/plimsoll/plimsoll/internal/live/watch"
)

// snapshotter is what gives snapshots: the library, nvidia-smi, or the files of AMD's driver.
type snapshotter interface {
	Snapshot(ctx context.Context) (nvml.Snapshot, error)
}

// Machine is this machine as a source of readings.
type Machine struct {
	cards  snapshotter
	system *proc.System
	note   string
	close  func() error
}

var _ watch.Source = (*Machine)(nil)

// ErrNothing: no driver answers here.
var ErrNothing = errors.New("no NVIDIA or AMD GPU can be read on this machine")

// Open connects to the driver, or to nvidia-smi where the driver's library cannot be used, or reads the files of AMD's driver.
func Open(runtimeDir string) (*Machine, error) {
	system := proc.Open("/")
	system.RuntimeDir = runtimeDir
	driver, libraryErr := nvml.Open()
	if libraryErr == nil {
		return &Machine{cards: library{driver}, system: system, close: driver.Close}, nil
	}
	smi, err := nvml.NewSMI()
	if amd, absent := amdgpu.Open(os.DirFS("/")); absent == nil && err != nil {
		return &Machine{cards: amd, system: system, close: func() error { return nil }}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w, and %w; %s", ErrNothing, libraryErr, err, advice(runtime.GOOS))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if _, err := smi.Snapshot(ctx); err != nil {
		return nil, fmt.Errorf("%w: %w, and %w", ErrNothing, libraryErr, err)
	}
	return &Machine{
		cards: smi, system: system, close: func() error { return nil },
		note: fmt.Sprintf("asking nvidia-smi, which is slow: %v", libraryErr),
	}, nil
}

// advice is what to do where no card answers.
func advice(system string) string {
	if system == "darwin" {
		return "Apple GPUs are not supported by watch and metrics"
	}
	return "install the NVIDIA driver, or in a container start it with --gpus all; Intel GPUs are not supported by watch and metrics"
}

// Close lets go of the driver.
func (m *Machine) Close() error { return m.close() }

// Slow tells whether a reading starts a command, so that one a second would be a burden.
func (m *Machine) Slow() bool { return m.note != "" }

// Read asks the driver once and looks every process up.
func (m *Machine) Read(ctx context.Context, now time.Time) (watch.Reading, error) {
	began := time.Now()
	snap, err := m.cards.Snapshot(ctx)
	if err != nil {
		return watch.Reading{}, fmt.Errorf("read the GPUs: %w", err)
	}
	// nvidia-smi answers late and unevenly; a slope needs the time of the numbers, not that of the question.
	r := watch.Reading{Time: now.Add(time.Since(began)), Origin: snap.Origin, Driver: snap.Driver, Problems: snap.Problems}
	if m.note != "" {
		r.Problems = append(r.Problems, m.note)
	}
	listed := 0
	for _, d := range snap.Devices {
		r.Cards = append(r.Cards, watch.Card{
			ID: d.UUID, Index: d.Index, Instance: d.Instance, Name: d.Name,
			Total: d.Total, Used: d.Used, Free: d.Free, Reserved: d.Reserved, Utilization: d.Utilization, Temperature: d.Temperature,
		})
		for _, p := range d.Processes {
			listed++
			r.Uses = append(r.Uses, m.use(d.UUID, p))
		}
	}
	keepOnLargest(r.Uses)
	if problem := m.blindness(snap, listed); problem != "" {
		r.Problems = append(r.Problems, problem)
	}
	return r, nil
}

// keepOnLargest leaves a process's allocator state on the card where it holds most: elsewhere it has a context and no tensors, and its
// bytes must not be counted twice.
func keepOnLargest(uses []watch.Use) {
	largest := map[int]int{}
	for i, u := range uses {
		if at, seen := largest[u.PID]; !seen || u.Bytes > uses[at].Bytes {
			largest[u.PID] = i
		}
	}
	for i, u := range uses {
		if u.Torch != nil && largest[u.PID] != i {
			uses[i].Torch = &watch.TorchStatus{Step: u.Torch.Step, Phase: u.Torch.Phase, Time: u.Torch.Time}
		}
	}
}

// blindness says why no process is listed although memory is in use: inside a container the driver hides them.
func (m *Machine) blindness(snap nvml.Snapshot, listed int) string {
	if listed > 0 || !m.system.Contained() {
		return ""
	}
	for _, d := range snap.Devices {
		if d.Used*20 > d.Total { // more than the driver needs for itself
			return "memory is in use but no process can be seen from inside this container; start it with --pid=host"
		}
	}
	return ""
}

func (m *Machine) use(card string, p nvml.Process) watch.Use {
	f := m.system.Look(p.PID)
	u := watch.Use{CardID: card, PID: p.PID, Bytes: p.Used, Known: p.Known, Who: watch.Identity{
		Command: f.Command, User: f.User, Container: f.Container, Pod: f.Pod, Job: f.Job, Rank: f.Rank, World: f.World,
		Started: f.Started, Gone: f.Gone, Hidden: f.Hidden,
	}}
	status, err := m.system.Status(p.PID, f)
	if err != nil {
		return u // not started under plimsoll run
	}
	u.Torch = &watch.TorchStatus{
		Allocated: status.Allocated, Reserved: status.Reserved, PeakAllocated: status.PeakAllocated,
		Step: status.Step, Phase: status.Phase, Time: time.Unix(0, int64(status.Time*1e9)), Asks: status.Asks,
	}
	if h := status.Held; h != nil {
		u.Torch.Held = &watch.Held{Time: time.Unix(0, int64(h.Time*1e9)), Step: h.Step, Share: h.Share}
		for _, one := range h.Holders {
			u.Torch.Held.Holders = append(u.Torch.Held.Holders, watch.Holder(one))
		}
	}
	return u
}

// library makes the driver's library a snapshotter. Its calls cannot be cancelled.
type library struct{ driver *nvml.Driver }

func (l library) Snapshot(context.Context) (nvml.Snapshot, error) { return l.driver.Snapshot() }
