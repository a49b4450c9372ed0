// Package doctor says what is wrong or risky on a machine that trains with PyTorch, and the fix.
//
// It takes Facts that somebody else has gathered (driver, cards, PyTorch, host memory, environment) and returns findings, each with a remedy a
// person can type, and for every question that was asked whether it could be answered. It looks at nothing itself, so the same facts give
// the same findings; a fact that is missing is "not known", never "fine". It proposes, it changes nothing.
package doctor

import (
	"cmp"
	"slices"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/live/watch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Facts are what is known about a machine. Zero values and nil pointers are unknown.
type Facts struct {
	System  System
	Driver  Driver
	Cards   []Card
	Memory  Memory
	Torch   *Torch // of the python on the path; nil: no PyTorch there
	Toolkit string // CUDA toolkit on the path, "12.4"
	// View is one reading of the cards and their processes; nil when they cannot be read.
	View *watch.View
	// Env holds the variables listed in Variables that are set, also those set to nothing.
	Env map[string]string
}

// System is the operating system.
type System struct {
	OS        string // "linux", "darwin" …
	Kernel    string
	WSL       bool
	Container bool
	// Contained: only the processes of one PID namespace can be seen.
	Contained bool
	Nouveau   bool // the free driver is loaded, which keeps NVIDIA's out
}

// Driver is NVIDIA's driver.
type Driver struct {
	Problem string // why the library cannot be used; empty when it can
	// NoLibrary, NoModule and Mismatch tell the problems apart that have a known fix.
	NoLibrary, NoModule, Mismatch bool
	Version                       string
	CUDA                          string // newest CUDA version it runs
	Module                        string // version of the loaded kernel module
	Files                         bool   // device files /dev/nvidia* exist
	SMI                           bool   // nvidia-smi answers where the library does not
}

// Card is the condition of a physical card. Nil: the driver does not say.
type Card struct {
	Index                      int
	Name                       string
	Total                      units.Bytes
	Capability                 string // compute capability, "9.0"
	Persistence, ECC           *bool
	Uncorrected                *uint64
	RemapPending, RemapFailure *bool
	RetiredPending             *bool
	MIG, MIGPending            *bool
	ComputeMode                string
}

// Memory is the host's memory. Zero totals are unknown.
type Memory struct {
	Total, Available units.Bytes
	Limit, LimitUsed units.Bytes // of this container or job
	ShmSize, ShmFree units.Bytes
	ShmKnown         bool
}

// Torch is an installed PyTorch.
type Torch struct {
	Python  string // version of the interpreter
	Version string // "2.11.0+cu130"
	CUDA    string // CUDA version it was built with, empty for a build without
	HIP     string // ROCm version it was built with
}

// Variables are the environment variables the checks look at.
var Variables = []string{
	"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING",
	"CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES",
}

// check is one question.
type check struct {
	fine    string // what it means that nothing was found
	known   func(Facts) bool
	examine func(Facts) []report.Finding
}

var checks = []check{
	{"the driver answers", always, driverWorks},
	{"driver and PyTorch fit together", torchKnown, torchFitsDriver},
	{"PyTorch and the cards fit together", torchAndCards, torchFitsCards},
	{"the CUDA toolkit and PyTorch fit together", toolkitKnown, toolkitFitsTorch},
	{"no memory is held by processes that have ended or by other containers", viewKnown, holders},
	{"cards are healthy (ECC, row remapping)", cardsKnown, soundness},
	{"cards are set up well (persistence, MIG, compute mode)", cardsKnown, setup},
	{"no memory spills to the host (WSL)", always, spill},
	{"/dev/shm is large enough", shmKnown, sharedMemory},
	{"the host has memory to spare", hostKnown, hostMemory},
	{"the allocator's variables are understood", always, allocatorVariables},
	{"CUDA's variables are harmless", always, cudaVariables},
}

func always(Facts) bool          { return true }
func torchKnown(f Facts) bool    { return f.Torch != nil }
func torchAndCards(f Facts) bool { return f.Torch != nil && len(f.Cards) > 0 }
func toolkitKnown(f Facts) bool  { return f.Torch != nil && f.Toolkit != "" }
func viewKnown(f Facts) bool     { return f.View != nil }
func cardsKnown(f Facts) bool    { return len(f.Cards) > 0 && !f.Driver.SMI }
func shmKnown(f Facts) bool      { return f.Memory.ShmKnown }
func hostKnown(f Facts) bool     { return f.Memory.Total > 0 }

// Examine asks every question.
func Examine(f Facts) report.Doctor {
	d := report.Doctor{Schema: report.DoctorSchema, Findings: []report.Finding{}, Fine: []string{}, Unknown: []string{}, Machine: describe(f)}
	for _, c := range checks {
		if !c.known(f) {
			d.Unknown = append(d.Unknown, c.fine)
			continue
		}
		found := c.examine(f)
		if len(found) == 0 {
			d.Fine = append(d.Fine, c.fine)
		}
		d.Findings = append(d.Findings, found...)
	}
	order := []string{report.Error, report.Warning, report.Remark}
	slices.SortStableFunc(d.Findings, func(a, b report.Finding) int {
		return cmp.Compare(slices.Index(order, a.Severity), slices.Index(order, b.Severity))
	})
	return d
}

func describe(f Facts) report.Machine {
	m := report.Machine{
		OS: f.System.OS, Kernel: f.System.Kernel, WSL: f.System.WSL, Container: f.System.Container, Driver: f.Driver.Version, DriverCUDA: f.Driver.CUDA,
		Toolkit: f.Toolkit, HostTotal: f.Memory.Total, HostAvailable: f.Memory.Available, Shm: f.Memory.ShmSize, Cards: []report.MachineCard{},
	}
	if f.Torch != nil {
		m.Torch, m.TorchCUDA, m.Python = f.Torch.Version, f.Torch.CUDA, f.Torch.Python
	}
	for _, c := range f.Cards {
		m.Cards = append(m.Cards, report.MachineCard{Index: c.Index, Name: c.Name, Total: c.Total, Capability: c.Capability})
	}
	return m
}

// finding builds a finding; remedies are commands or deeds, the most useful first.
func finding(id, severity string, confidence float64, title, evidence string, remedies ...report.Remedy) report.Finding {
	f := report.Finding{ID: id, Severity: severity, Confidence: confidence, Title: title, Evidence: []string{}, Where: []report.Place{}, Remedies: remedies}
	if evidence != "" {
		f.Evidence = append(f.Evidence, evidence)
	}
	return f
}

// do is a remedy in words, with the command that does it where there is one.
func do(action, command string) report.Remedy {
	return report.Remedy{Action: action, Command: command, CheckedBy: report.ByRule}
}

func is(b *bool) bool { return b != nil && *b }
