package machine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/internal/live/doctor"
	"github.com/plimsoll/plimsoll/internal/live/nvml"
	"github.com/plimsoll/plimsoll/internal/live/proc"
	"github.com/plimsoll/plimsoll/internal/live/watch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Surroundings is the outside world as gathering facts needs it.
type Surroundings struct {
	Root      string // "/" or, in tests, a folder that looks like it
	LookupEnv func(string) (string, bool)
	// Run starts a program with arguments and gives what it printed; an error where it is missing or fails.
	Run func(ctx context.Context, name string, args ...string) ([]byte, error)
}

// Here is this machine.
func Here() Surroundings {
	return Surroundings{Root: "/", LookupEnv: os.LookupEnv, Run: func(ctx context.Context, name string, args ...string) ([]byte, error) {
		ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
		defer cancel()
		return exec.CommandContext(ctx, name, args...).Output()
	}}
}

// Facts gathers what the doctor wants to know. What cannot be had stays unknown.
func (s Surroundings) Facts(ctx context.Context) doctor.Facts {
	f := doctor.Facts{System: s.system(), Memory: s.memory(), Env: map[string]string{}}
	for _, name := range doctor.Variables {
		if value, set := s.LookupEnv(name); set {
			f.Env[name] = value
		}
	}
	f.Driver.Module = s.module()
	files, _ := filepath.Glob(filepath.Join(s.Root, "dev/nvidia[0-9]*"))
	f.Driver.Files = len(files) > 0
	f.Torch = s.torch(ctx)
	f.Toolkit = s.toolkit(ctx)
	s.askDriver(ctx, &f)
	return f
}

// askDriver opens the driver for one reading and one look at the cards' health.
func (s Surroundings) askDriver(ctx context.Context, f *doctor.Facts) {
	driver, err := nvml.Open()
	if err != nil {
		f.Driver.Problem = err.Error()
		f.Driver.NoLibrary = errors.Is(err, nvml.ErrNoLibrary)
		f.Driver.NoModule = errors.Is(err, nvml.ErrNoDriver)
		f.Driver.Mismatch = errors.Is(err, nvml.ErrMismatch)
		s.askSMI(ctx, f)
		return
	}
	m := &Machine{cards: library{driver}, system: proc.Open(s.Root), close: driver.Close}
	defer m.Close()
	if snap, err := driver.Snapshot(); err == nil {
		f.Driver.Version, f.Driver.CUDA = snap.Driver, snap.CUDA
	} else {
		f.Driver.Problem = err.Error()
	}
	if health, err := driver.Health(); err == nil {
		for _, h := range health {
			f.Cards = append(f.Cards, doctor.Card{
				Index: h.Index, Name: h.Name, Total: h.Total, Capability: h.Capability, Persistence: h.Persistence, ECC: h.ECC, Uncorrected: h.Uncorrected,
				RemapPending: h.RemapPending, RemapFailure: h.RemapFailure, RetiredPending: h.RetiredPending, MIG: h.MIG, MIGPending: h.MIGPending, ComputeMode: h.ComputeMode,
			})
		}
	}
	if view := watch.NewHistory().Look(ctx, m, time.Now()); view.Readings > 0 {
		f.View = &view
	}
}

// askSMI makes do with nvidia-smi, which says nothing about health.
func (s Surroundings) askSMI(ctx context.Context, f *doctor.Facts) {
	smi := nvml.SMI{Run: func(ctx context.Context, args ...string) ([]byte, error) { return s.Run(ctx, "nvidia-smi", args...) }}
	m := &Machine{cards: smi, system: proc.Open(s.Root)}
	view := watch.NewHistory().Look(ctx, m, time.Now())
	if view.Readings == 0 {
		return
	}
	f.View, f.Driver.Version, f.Driver.SMI = &view, view.Driver, true
	for _, c := range view.Cards {
		f.Cards = append(f.Cards, doctor.Card{Index: c.Index, Name: c.Name, Total: c.Total})
	}
}

func (s Surroundings) system() doctor.System {
	release := s.word("proc/sys/kernel/osrelease")
	_, kubernetes := s.LookupEnv("KUBERNETES_SERVICE_HOST")
	return doctor.System{
		OS: runtime.GOOS, Kernel: release, WSL: strings.Contains(strings.ToLower(release), "microsoft"),
		Container: kubernetes || s.exists(".dockerenv") || s.exists("run/.containerenv"),
		Contained: proc.Open(s.Root).Contained(), Nouveau: s.exists("sys/module/nouveau"),
	}
}

var moduleVersion = regexp.MustCompile(`\b\d{3}\.\d+(\.\d+)?\b`)

// module reads the version of the loaded kernel module: "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.82.07 …".
func (s Surroundings) module() string {
	for line := range strings.Lines(s.text("proc/driver/nvidia/version")) {
		if strings.HasPrefix(line, "NVRM version") {
			return moduleVersion.FindString(line)
		}
	}
	return ""
}

// Memory is what a program can have here: the machine's, or the limit of its control group; 0: not known.
func (s Surroundings) Memory() units.Bytes {
	m := s.memory()
	if m.Limit > 0 && (m.Total == 0 || m.Limit < m.Total) {
		return m.Limit
	}
	return m.Total
}

func (s Surroundings) memory() doctor.Memory {
	var m doctor.Memory
	for line := range strings.Lines(s.text("proc/meminfo")) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		kib, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil || kib < 0 || kib > int64(1024*units.TiB/units.KiB) {
			continue
		}
		switch f[0] {
		case "MemTotal:":
			m.Total = units.Bytes(kib) * units.KiB
		case "MemAvailable:":
			m.Available = units.Bytes(kib) * units.KiB
		}
	}
	m.Limit, m.LimitUsed = s.limit()
	m.ShmSize, m.ShmFree, m.ShmKnown = space(filepath.Join(s.Root, "dev/shm"))
	return m
}

// limit reads the memory limit of the control group this process is in, as seen from inside a container: version 2, then 1.
func (s Surroundings) limit() (limit, used units.Bytes) {
	for _, pair := range [][2]string{
		{"sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory.current"},
		{"sys/fs/cgroup/memory/memory.limit_in_bytes", "sys/fs/cgroup/memory/memory.usage_in_bytes"},
	} {
		n, err := strconv.ParseInt(s.word(pair[0]), 10, 64)
		if err != nil || n <= 0 { // "max", or no such file
			continue
		}
		current, _ := strconv.ParseInt(s.word(pair[1]), 10, 64)
		return units.Bytes(n), units.Bytes(current)
	}
	return 0, 0
}

// findTorch asks an interpreter where its PyTorch is and reads the version file, without importing it: that takes seconds and may start CUDA.
// The working folder is taken off the path first, so that nothing lying there is run.
const findTorch = `import sys
sys.path=[p for p in sys.path if p]
import importlib.util,json,os,platform,re
s=importlib.util.find_spec("torch")
r={"python":platform.python_version()}
if s and s.origin:
    t=open(os.path.join(os.path.dirname(s.origin),"version.py"),errors="replace").read(65536)
    for k,n in (("version","__version__"),("cuda","cuda"),("hip","hip")):
        m=re.search(r"^%s\b[^=\n]*=\s*['\"]([^'\"]*)['\"]"%n,t,re.M)
        r[k]=m.group(1) if m else ""
print(json.dumps(r))`

func (s Surroundings) torch(ctx context.Context) *doctor.Torch {
	for _, python := range []string{"python3", "python"} {
		out, err := s.Run(ctx, python, "-c", findTorch)
		if err != nil {
			continue
		}
		var found struct{ Python, Version, CUDA, HIP string }
		if json.Unmarshal(bytes.TrimSpace(out), &found) != nil || found.Version == "" {
			return nil
		}
		return &doctor.Torch{Python: found.Python, Version: found.Version, CUDA: found.CUDA, HIP: found.HIP}
	}
	return nil
}

var nvccRelease = regexp.MustCompile(`release (\d+\.\d+)`)

func (s Surroundings) toolkit(ctx context.Context) string {
	programs := []string{"nvcc"}
	if home, set := s.LookupEnv("CUDA_HOME"); set && home != "" {
		programs = []string{filepath.Join(home, "bin", "nvcc"), "nvcc"}
	}
	for _, program := range programs {
		if out, err := s.Run(ctx, program, "--version"); err == nil {
			if m := nvccRelease.FindSubmatch(out); m != nil {
				return string(m[1])
			}
		}
	}
	return ""
}

// text reads a small file; empty when it cannot be read.
func (s Surroundings) text(name string) string {
	data, err := os.ReadFile(filepath.Join(s.Root, name))
	if err != nil || len(data) > 1<<20 {
		return ""
	}
	return string(data)
}

func (s Surroundings) word(name string) string { return strings.TrimSpace(s.text(name)) }

func (s Surroundings) exists(name string) bool {
	_, err := os.Stat(filepath.Join(s.Root, name))
	return err == nil
}
