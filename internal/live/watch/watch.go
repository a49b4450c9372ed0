// Package watch turns looks at a machine's GPUs into a history and says what it means.
//
// It takes Readings (cards, the processes on them, their bytes at one instant) from a Source and returns Views: who holds the memory,
// how fast each process grows and how sure that is, when a card runs out, which dead process still holds bytes. Time enters
// only with the readings, so the same readings give the same views. What a source could not see stays "unknown", never zero.
package watch

import (
	"context"
	"time"

	"github.com/plimsoll/plimsoll/internal/units"
)

// Source gives one reading of a machine. A real one asks the driver; a simulated one computes.
type Source interface {
	Read(ctx context.Context, now time.Time) (Reading, error)
}

// Reading is what one look at a machine showed.
type Reading struct {
	Time   time.Time
	Origin string // where the numbers come from: "nvml", "nvidia-smi", "demo"
	Driver string // driver version, empty when unknown
	Cards  []Card
	// Uses are in no particular order; one process may hold memory on several cards.
	Uses []Use
	// Problems are things that could not be read and why, for a person.
	Problems []string
}

// Card is a GPU, or one instance of a GPU cut up by MIG. A card that is cut up is replaced by its instances, so that
// no byte is counted twice.
type Card struct {
	ID    string // the driver's UUID: stays the same over restarts
	Index int    // the driver's number of the physical card
	// Instance is the GPU instance number of a MIG slice, -1 for a whole card.
	Instance int
	Name     string
	// Total, Used and Free are in the driver's sense; Reserved is what the driver keeps for itself. Total = Used + Free + Reserved.
	Total, Used, Free, Reserved units.Bytes
	// Utilization of the compute units in percent, -1 when the driver does not say.
	Utilization int
	// Temperature in degrees Celsius, -1 when unknown.
	Temperature int
}

// Use is the memory one process holds on one card.
type Use struct {
	CardID string
	PID    int
	// Bytes is meaningless unless Known: drivers answer "not available" on Windows, in MIG slices without permission and in WSL.
	Bytes units.Bytes
	Known bool
	Who   Identity
	// Torch is what the process says about its own allocator; nil unless it was started under plimsoll run.
	Torch *TorchStatus
}

// Identity says whose a process is. Empty fields are unknown.
type Identity struct {
	Command   string // program and script without their folders and arguments: "python train.py"
	User      string
	Container string // short container id
	Pod       string // Kubernetes pod uid
	Job       string // Slurm job id
	Rank      int    // torchrun rank, -1 when the process is no rank of a job
	World     int    // number of ranks, 0 when unknown
	// Started tells two processes apart that had the same PID one after the other; zero when unknown.
	Started int64
	// Gone: the driver lists the process but the system knows no such PID.
	Gone bool
	// Hidden says why nothing more is known, and what to do about it. Empty when the process can be seen.
	Hidden string
}

// Training tells whether a process is a training process as far as can be known from outside.
func (u Use) Training() bool { return u.Torch != nil || u.Who.Rank >= 0 }

// TorchStatus is the state of a process's PyTorch allocator.
type TorchStatus struct {
	Allocated, Reserved, PeakAllocated units.Bytes
	Step                               int
	Phase                              string
	Time                               time.Time
	Asks                               int // the signal that asks the process who holds its memory; 0: it does not listen
	Held                               *Held
}

// Held is who holds the memory of a process, as its probe last saw it.
type Held struct {
	Time    time.Time
	Step    int
	Share   float64 // of the allocated bytes, those that have a name
	Holders []Holder
}

// Holder is memory that one name keeps alive.
type Holder struct {
	Name  string
	Bytes units.Bytes
	Count int
}

// Cached is what PyTorch holds from CUDA but does not use: it can serve later requests or be given back.
func (t TorchStatus) Cached() units.Bytes { return max(0, t.Reserved-t.Allocated) }

// Loop reads the source at every tick and delivers a view after each, until the context ends or ticks close. It runs in the
// caller's goroutine. A failed reading is delivered too: a view whose Error is set and whose numbers are the last good ones.
func Loop(ctx context.Context, source Source, history *History, ticks <-chan time.Time, deliver func(View)) {
	for {
		select {
		case <-ctx.Done():
			return
		case now, open := <-ticks:
			if !open {
				return
			}
			deliver(history.Look(ctx, source, now))
		}
	}
}
