package textout

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/show/screen"
	"github.com/plimsoll/plimsoll/internal/testkit/goldentest"
	"github.com/plimsoll/plimsoll/internal/units"
)

func TestTheDoctorsReportReadsWell(t *testing.T) {
	t.Parallel()
	rule := func(action, command string) report.Remedy { return report.Remedy{Action: action, Command: command} }
	d := report.Doctor{
		Machine: report.Machine{
			Driver: "570.124.06", DriverCUDA: "12.8", Torch: "2.11.0+cu130", TorchCUDA: "13.0", Kernel: "6.8.0-40-generic", HostTotal: 512 * units.GiB, HostAvailable: 391 * units.GiB,
			Shm: 64 * units.MiB, Cards: []report.MachineCard{{Name: "NVIDIA H200", Total: 141 * units.GiB}},
		},
		Findings: []report.Finding{
			{Severity: report.Error, Title: "PyTorch 2.11.0+cu130 needs CUDA 13.0; driver 570.124.06 runs CUDA up to 12.8",
				Evidence: []string{`PyTorch says "The NVIDIA driver on your system is too old"`},
				Remedies: []report.Remedy{rule("update the driver", ""), rule("or install a PyTorch for CUDA 12.6; pytorch.org/get-started/locally has the command", "")}},
			{Severity: report.Warning, Title: "9.0 GiB on GPU 1 is held by python eval.py (pid 29004), which is dead", Remedies: []report.Remedy{rule("find what still has the card open", "sudo fuser -v /dev/nvidia1")}},
			{Severity: report.Remark, Title: "GPU 0: the driver lets go of the card when nobody uses it", Evidence: []string{"persistence mode is off: every first start takes seconds longer"},
				Remedies: []report.Remedy{rule("switch persistence on", "sudo nvidia-smi -pm 1 -i 0")}},
		},
		Fine:    []string{"cards are healthy (ECC, row remapping)", "the host has memory to spare"},
		Unknown: []string{"the CUDA toolkit and PyTorch fit together"},
	}
	var out bytes.Buffer
	Doctor(screen.New(&out, screen.Style{Width: 80}), &d)
	goldentest.Check(t, filepath.Join("testdata", "doctor.txt"), out.Bytes())
}
