// Package nvml asks NVIDIA's driver who holds memory on which card.
//
// It takes nothing but the machine and returns Snapshots of the cards with their processes, and for a health report what the
// driver says about errors, persistence and MIG. The driver's library is opened at run time (no cgo), every function in it is
// optional because old and new drivers differ; without the library nvidia-smi is asked instead. What the driver does not say
// is marked unknown: its 2^64-1, its "[N/A]" and its refusals never become numbers.
package nvml

import (
	"errors"

	"github.com/plimsoll/plimsoll/internal/units"
)

// Errors a caller may want to tell apart.
var (
	// ErrNoLibrary: libnvidia-ml is not on this machine, or the system is one where it is not looked for.
	ErrNoLibrary = errors.New("the NVIDIA driver's library libnvidia-ml.so.1 was not found")
	// ErrNoDriver: the library is there, the kernel module is not.
	ErrNoDriver = errors.New("the NVIDIA kernel module is not loaded")
	// ErrMismatch: library and kernel module are of different versions, as after an upgrade without a reboot.
	ErrMismatch = errors.New("the NVIDIA library and kernel module are of different versions; reboot or reload the module")
	// ErrLost: a card fell off the bus.
	ErrLost = errors.New("a GPU is lost: it fell off the bus and needs a reset or a reboot")
)

// Snapshot is what the driver says at one instant.
type Snapshot struct {
	Origin  string // "nvml", "nvidia-smi" or "amdgpu"
	Driver  string // driver version
	CUDA    string // newest CUDA version the driver can run, "13.0"; empty when unknown
	Devices []Device
	// Problems are devices or values that could not be read and why.
	Problems []string
}

// Device is a card or one of its MIG instances; a card cut into instances is left out.
type Device struct {
	UUID     string
	Index    int // of the physical card
	Instance int // GPU instance of a MIG device, -1 for a whole card
	Name     string
	// Total = Used + Free + Reserved. Reserved is zero where the driver counts it as used.
	Total, Used, Free, Reserved units.Bytes
	Utilization                 int // percent, -1 unknown
	Temperature                 int // degrees Celsius, -1 unknown
	Processes                   []Process
}

// Process is one process's share of a device.
type Process struct {
	PID   int
	Used  units.Bytes
	Known bool // false: the driver does not say how much
}

// Health is what the driver says about the condition of a physical card. Nil: it does not say.
type Health struct {
	Index                      int
	UUID, Name                 string
	Total                      units.Bytes
	Capability                 string // CUDA compute capability, "9.0"
	Persistence                *bool
	ECC                        *bool
	Uncorrected                *uint64 // uncorrected ECC errors since the driver was loaded
	RemapPending, RemapFailure *bool
	RetiredPending             *bool
	MIG, MIGPending            *bool
	ComputeMode                string // "default", "exclusive", "prohibited"
}

// merge joins the compute and the graphics list of a device: a process in both holds the larger amount, not the sum.
func merge(lists ...[]Process) []Process {
	var out []Process
	at := map[int]int{}
	for _, list := range lists {
		for _, p := range list {
			i, seen := at[p.PID]
			switch {
			case !seen:
				at[p.PID] = len(out)
				out = append(out, p)
			case p.Known && (!out[i].Known || p.Used > out[i].Used):
				out[i] = p
			}
		}
	}
	return out
}

// amount reads the driver's number for a process: 2^64-1 and anything beyond the largest memory stand for "not available".
func amount(raw uint64) (units.Bytes, bool) {
	if raw > uint64(1024*units.TiB) {
		return 0, false
	}
	return units.Bytes(raw), true
}
