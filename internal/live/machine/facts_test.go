package machine

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/live/doctor"
	"github.com/plimsoll/plimsoll/internal/units"
)

// elsewhere is a machine made of files, variables and programs that answer.
func elsewhere(t *testing.T, files, env, programs map[string]string) Surroundings {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return Surroundings{
		Root:      root,
		LookupEnv: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		Run: func(_ context.Context, name string, _ ...string) ([]byte, error) {
			if out, ok := programs[name]; ok {
				return []byte(out), nil
			}
			return nil, errors.New("no such program")
		},
	}
}

func TestFactsAreReadFromTheSystem(t *testing.T) {
	t.Parallel()
	s := elsewhere(t, map[string]string{
		"proc/sys/kernel/osrelease":    "5.15.167.4-microsoft-standard-WSL2\n",
		"proc/driver/nvidia/version":   "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.82.07  Release Build\nGCC version: 12.3.0\n",
		"proc/meminfo":                 "MemTotal:       65536000 kB\nMemFree: 1 kB\nMemAvailable:    1024000 kB\nBad: x kB\n",
		"sys/fs/cgroup/memory.max":     "8589934592\n",
		"sys/fs/cgroup/memory.current": "4294967296\n",
		"dev/shm/x":                    "",
		"dev/nvidia0":                  "",
		".dockerenv":                   "",
	}, map[string]string{"CUDA_VISIBLE_DEVICES": "", "SECRET": "x"}, map[string]string{
		"python3": `{"python":"3.12.1","version":"2.9.1+cu128","cuda":"12.8","hip":""}`,
		"nvcc":    "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 12.4, V12.4.131\n",
	})
	f := s.Facts(context.Background())
	if !f.System.WSL || !f.System.Container || f.Driver.Module != "580.82.07" || !f.Driver.Files {
		t.Errorf("system %+v, driver %+v", f.System, f.Driver)
	}
	if f.Memory.Total != 65536000*units.KiB || f.Memory.Available != 1024000*units.KiB || f.Memory.Limit != 8*units.GiB || f.Memory.LimitUsed != 4*units.GiB {
		t.Errorf("memory %+v", f.Memory)
	}
	if f.Torch == nil || f.Torch.Version != "2.9.1+cu128" || f.Toolkit != "12.4" {
		t.Errorf("torch %+v, toolkit %q", f.Torch, f.Toolkit)
	}
	if v, set := f.Env["CUDA_VISIBLE_DEVICES"]; !set || v != "" || len(f.Env) != 1 {
		t.Errorf("environment %v: a variable set to nothing is set, others are not looked at", f.Env)
	}
}

func TestWithoutTheLibraryTheDoctorAsksNvidiaSmi(t *testing.T) {
	t.Parallel()
	var f doctor.Facts
	s := elsewhere(t, nil, nil, map[string]string{"nvidia-smi": "0, GPU-a, NVIDIA T4, 15360, 10, 15350, 0, 30, [N/A], 550.54.15, 0\n"})
	s.askSMI(context.Background(), &f)
	if !f.Driver.SMI || f.Driver.Version != "550.54.15" || len(f.Cards) != 1 || f.Cards[0].Total != 15360*units.MiB || f.View == nil {
		t.Errorf("%+v", f)
	}
}

func TestAnEmptyMachineGivesUnknownsAndNoCrash(t *testing.T) {
	t.Parallel()
	f := elsewhere(t, nil, nil, map[string]string{"python3": "not json"}).Facts(context.Background())
	if f.Torch != nil || f.Toolkit != "" || f.Memory.Total != 0 || f.System.WSL {
		t.Errorf("%+v", f)
	}
}

func TestPyTorchIsFoundWithoutImportingIt(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no Python on this machine")
	}
	folder := t.TempDir()
	if err := os.MkdirAll(filepath.Join(folder, "torch"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"torch/__init__.py": "raise SystemExit('imported')\n",
		"torch/version.py": "from typing import Optional\n__all__ = ['__version__', 'cuda']\n__version__ = '2.11.0+cu130'\ndebug = False\n" +
			"cuda: Optional[str] = '13.0'\ngit_version = 'abc'\nhip: Optional[str] = None\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := Surroundings{Run: func(ctx context.Context, name string, args ...string) ([]byte, error) {
		if !strings.HasSuffix(name, "python3") {
			return nil, errors.New("no")
		}
		cmd := exec.CommandContext(ctx, python, args...)
		cmd.Env = append(os.Environ(), "PYTHONPATH="+folder)
		return cmd.Output()
	}}
	got := s.torch(context.Background())
	if got == nil || got.Version != "2.11.0+cu130" || got.CUDA != "13.0" || got.HIP != "" || got.Python == "" {
		t.Errorf("%+v", got)
	}
}
