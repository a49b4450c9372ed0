package doctor

import (
	"fmt"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/units"
)

// spill reports memory that silently lives on the host: Windows' driver moves it there instead of refusing, under WSL too.
func spill(f Facts) []report.Finding {
	var out []report.Finding
	if f.View != nil {
		for _, c := range f.View.Cards {
			for _, p := range c.Processes {
				held := p.Bytes
				if p.Torch != nil {
					held = max(held, p.Torch.Reserved)
				}
				if (p.Known || p.Torch != nil) && held > c.Total {
					out = append(out, finding("sysmem-fallback", report.Error, 0.95, fmt.Sprintf("%s holds %s on %s, more than the card has", p.Name(), held.Short(), c.Label()),
						"the rest is in host memory, ten to fifty times slower", do(`in NVIDIA's control panel set "CUDA - Sysmem Fallback Policy" to "Prefer No Sysmem Fallback"`, ""),
						do("make the job smaller", "plimsoll fit …")))
				}
			}
		}
	}
	if !f.System.WSL {
		return out
	}
	return append(out,
		finding("sysmem-fallback", report.Remark, 0.7, "under WSL a full card does not fail: the driver moves memory to the host and everything becomes slow", "this is the default of the Windows driver",
			do(`set "CUDA - Sysmem Fallback Policy" to "Prefer No Sysmem Fallback" in NVIDIA's control panel`, "")),
		finding("wsl-pinned-memory", report.Remark, 0.7, "under WSL little memory can be pinned: pin_memory=True may fail with CUDA out of memory on an empty card",
			"WSL caps pinned memory at a share of the host's (microsoft/WSL issue 8447)", do("where it fails, set pin_memory=False in the DataLoader", "")))
}

// Docker gives a container 64 MiB of /dev/shm; DataLoader workers pass batches through it and die of a bus error when it is full.
const (
	shmTiny  = 64 * units.MiB
	shmSmall = units.GiB
	shmLeft  = 256 * units.MiB
)

func sharedMemory(f Facts) []report.Finding {
	m := f.Memory
	remedies := []report.Remedy{do("give the container more", "docker run --shm-size=16g …   (or --ipc=host)"), do("in Kubernetes mount an emptyDir with medium: Memory at /dev/shm", ""),
		do("or use no workers", "DataLoader(num_workers=0)")}
	switch {
	case m.ShmSize <= shmTiny:
		return []report.Finding{finding("shm-small", report.Error, 0.95, fmt.Sprintf("/dev/shm has %s: DataLoader workers will die with a bus error", m.ShmSize.Short()),
			"this is Docker's default", remedies...)}
	case m.ShmSize < shmSmall:
		return []report.Finding{finding("shm-small", report.Warning, 0.8, fmt.Sprintf("/dev/shm has only %s", m.ShmSize.Short()), "DataLoader workers pass batches through it", remedies...)}
	case m.ShmFree < shmLeft:
		return []report.Finding{finding("shm-small", report.Warning, 0.9, fmt.Sprintf("/dev/shm is nearly full: %s left of %s", m.ShmFree.Short(), m.ShmSize.Short()),
			"often left behind by killed workers", do("see what is in it; files of dead processes may be removed", "ls -lat /dev/shm | head"))}
	}
	return nil
}

// hostMemory reports a host on which training is likely to be killed.
func hostMemory(f Facts) []report.Finding {
	m := f.Memory
	total, available, whose := m.Total, m.Available, "the machine"
	if m.Limit > 0 && m.Limit < m.Total {
		total, available, whose = m.Limit, min(m.Available, max(0, m.Limit-m.LimitUsed)), "this container or job"
	}
	var out []report.Finding
	if available < 2*units.GiB || available*20 < total {
		out = append(out, finding("host-memory-low", report.Warning, 0.9, fmt.Sprintf("%s has %s of host memory left of %s", whose, available.Short(), total.Short()),
			`the kernel ends a process that asks for more: "Killed", exit code 137`, do("end what is not needed, use fewer DataLoader workers, or ask for more memory", "ps aux --sort=-rss | head")))
	}
	var largest units.Bytes
	for _, c := range f.Cards {
		largest = max(largest, c.Total)
	}
	if total < largest {
		out = append(out, finding("host-memory-low", report.Remark, 0.7, fmt.Sprintf("%s has less memory (%s) than the card (%s)", whose, total.Short(), largest.Short()),
			"a checkpoint that fills the card cannot be loaded through the host at once", do(`load with torch.load(…, mmap=True, map_location="cuda") or safetensors`, "")))
	}
	return out
}
