package doctor

import (
	"fmt"

	"github.com/plimsoll/plimsoll/internal/answer/report"
)

func driverWorks(f Facts) []report.Finding {
	d := f.Driver
	switch {
	case d.Problem == "" && d.Module != "" && d.Version != "" && d.Module != d.Version:
		return []report.Finding{mismatch(d)}
	case d.Problem == "":
		return nil
	case d.Mismatch:
		return []report.Finding{mismatch(d)}
	case d.SMI:
		return []report.Finding{finding("driver-library", report.Remark, 0.9, "only nvidia-smi answers: the cards' health is not known, and watching costs more", d.Problem,
			do("put the folder of libnvidia-ml.so.1 on the loader's path; builds with the tag nogpu never look for it", "ldconfig -p | grep libnvidia-ml"))}
	case f.System.Nouveau:
		return []report.Finding{finding("driver-missing", report.Error, 0.9, "the open-source driver nouveau controls the card; CUDA needs NVIDIA's driver", d.Problem,
			do("install NVIDIA's driver, keep nouveau from loading, and reboot", "echo 'blacklist nouveau' | sudo tee /etc/modprobe.d/blacklist-nouveau.conf"))}
	case f.System.Container && d.Files && d.NoLibrary:
		return []report.Finding{finding("driver-missing", report.Error, 0.9,
			"this container has the device files but not the driver's library", "NVIDIA_DRIVER_CAPABILITIES="+f.Env["NVIDIA_DRIVER_CAPABILITIES"],
			do("start the container with the capabilities it needs", "docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility …"))}
	case f.System.Container && d.Module != "":
		return []report.Finding{finding("driver-missing", report.Error, 0.9, "this container was started without GPUs; the machine has NVIDIA's driver "+d.Module, d.Problem,
			do("start it with GPUs", "docker run --gpus all …"), do("in Kubernetes ask for nvidia.com/gpu, in Slurm for --gres=gpu:1", ""))}
	case f.System.WSL:
		return []report.Finding{finding("driver-missing", report.Error, 0.8, "WSL does not find NVIDIA's driver", d.Problem,
			do("install the driver on Windows, never inside WSL, then restart WSL", "wsl --shutdown"))}
	case d.NoModule:
		return []report.Finding{finding("driver-missing", report.Error, 0.9, "NVIDIA's library is installed but its kernel module is not loaded", d.Problem,
			do("load it; where that fails, it was built for another kernel: reinstall the driver", "sudo modprobe nvidia"))}
	}
	return []report.Finding{finding("driver-missing", report.Warning, 0.8, "no NVIDIA driver answers on this machine", d.Problem,
		do("install the driver where the machine has an NVIDIA card; everything but watch and metrics works without one", ""))}
}

func mismatch(d Driver) report.Finding {
	return finding("driver-mismatch", report.Error, 0.99, "the driver's library and its kernel module are of different versions",
		fmt.Sprintf("library %s, module %s: an update without a reboot", orUnknown(d.Version), orUnknown(d.Module)),
		do("reboot", "sudo reboot"), do("or, with no process on the cards, reload the module", "sudo rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia && sudo modprobe nvidia"))
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// torchFitsDriver compares the CUDA version PyTorch was built with to the newest the driver runs. Within one major version any driver of
// that major version does ("minor version compatibility", NVIDIA CUDA Compatibility guide); a newer major version needs a newer driver.
func torchFitsDriver(f Facts) []report.Finding {
	t := f.Torch
	if t.CUDA == "" && t.HIP == "" && len(f.Cards) > 0 {
		return []report.Finding{finding("torch-without-cuda", report.Error, 0.99, "PyTorch "+t.Version+" was built without CUDA: it will not use the card", "",
			do("install a build for CUDA "+wheel(f.Driver.CUDA)+"; pytorch.org/get-started/locally has the command", ""))}
	}
	built, ok := parseVersion(t.CUDA)
	runs, ok2 := parseVersion(f.Driver.CUDA)
	switch {
	case !ok || !ok2:
		return nil
	case built.major > runs.major:
		return []report.Finding{finding("driver-too-old", report.Error, 0.99,
			fmt.Sprintf("PyTorch %s needs CUDA %s; driver %s runs CUDA up to %s", t.Version, t.CUDA, f.Driver.Version, f.Driver.CUDA),
			`PyTorch says "The NVIDIA driver on your system is too old"`,
			do("update the driver", ""), do("or install a PyTorch for CUDA "+wheel(f.Driver.CUDA)+"; pytorch.org/get-started/locally has the command", ""))}
	case runs.less(built):
		return []report.Finding{finding("driver-older-than-torch", report.Remark, 0.9,
			fmt.Sprintf("PyTorch was built with CUDA %s, the driver supports CUDA %s: it runs, but code compiled at run time may not", t.CUDA, f.Driver.CUDA),
			"a driver of the same major version runs the program, but not PTX newer than itself", do("update the driver", ""))}
	}
	return nil
}

// wheel names the CUDA version of a PyTorch build that a driver of this CUDA version runs.
func wheel(driverCUDA string) string {
	v, ok := parseVersion(driverCUDA)
	switch {
	case !ok || v.major >= 13:
		return "13.0"
	case v.major == 12:
		return "12.6"
	}
	return "11.8"
}

// arch says which CUDA version first compiled for a compute capability, and the last that did (CUDA toolkit release notes; CUDA 13.0
// dropped everything before Turing).
var arches = []struct {
	capability  string
	first, last version
	name        string
}{
	{"12.1", version{12, 9}, version{99, 0}, "Blackwell"}, {"12.0", version{12, 8}, version{99, 0}, "Blackwell"},
	{"10.3", version{12, 9}, version{99, 0}, "Blackwell"}, {"10.0", version{12, 8}, version{99, 0}, "Blackwell"},
	{"9.0", version{11, 8}, version{99, 0}, "Hopper"}, {"8.9", version{11, 8}, version{99, 0}, "Ada"},
	{"8.7", version{11, 4}, version{99, 0}, "Orin"}, {"8.6", version{11, 1}, version{99, 0}, "Ampere"}, {"8.0", version{11, 0}, version{99, 0}, "Ampere"},
	{"7.0", version{9, 0}, version{12, 9}, "Volta"}, {"6.1", version{8, 0}, version{12, 9}, "Pascal"}, {"6.0", version{8, 0}, version{12, 9}, "Pascal"},
	{"5.2", version{7, 0}, version{12, 9}, "Maxwell"}, {"5.0", version{6, 0}, version{12, 9}, "Maxwell"},
}

func torchFitsCards(f Facts) []report.Finding {
	built, ok := parseVersion(f.Torch.CUDA)
	if !ok {
		return nil
	}
	var out []report.Finding
	for _, c := range f.Cards {
		for _, a := range arches {
			if c.Capability != a.capability || (!built.less(a.first) && !a.last.less(built)) {
				continue
			}
			action := fmt.Sprintf("install a PyTorch built with CUDA %s or newer", a.first)
			if a.last.less(built) {
				action = fmt.Sprintf("install a PyTorch built with CUDA %s or older", a.last)
			}
			out = append(out, finding("torch-without-card", report.Error, 0.95,
				fmt.Sprintf("PyTorch %s (CUDA %s) has no code for GPU %d, a %s card of compute capability %s", f.Torch.Version, f.Torch.CUDA, c.Index, a.name, c.Capability),
				`it fails with "no kernel image is available for execution on the device"`, do(action, "")))
		}
	}
	return out
}

// toolkitFitsTorch matters to people who build extensions: torch/utils/cpp_extension.py refuses another major version.
func toolkitFitsTorch(f Facts) []report.Finding {
	built, ok := parseVersion(f.Torch.CUDA)
	toolkit, ok2 := parseVersion(f.Toolkit)
	if !ok || !ok2 || built.major == toolkit.major {
		return nil
	}
	return []report.Finding{finding("toolkit-mismatch", report.Remark, 0.95,
		fmt.Sprintf("nvcc is for CUDA %s, PyTorch was built with CUDA %s: extensions such as flash-attn will not build", f.Toolkit, f.Torch.CUDA),
		`PyTorch refuses with "The detected CUDA version mismatches the version that was used to compile PyTorch"`,
		do(fmt.Sprintf("point CUDA_HOME to a toolkit of CUDA %d, or install extensions as ready-made wheels", built.major), ""))}
}
