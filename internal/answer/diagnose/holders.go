package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/oomtext"
	"github.com/plimsoll/plimsoll/internal/units"
)

var holderRules = []textRule{textFallback, textContexts, textOtherProcess, textTaken, textOutside, textPools}

// textTaken: TensorFlow asks for the whole device when it starts, and for ever less when that is not there.
func textTaken(t *Text) (report.Finding, bool) {
	if !t.onDevice() || t.Library != "tensorflow" || t.Purpose != "pool" || len(t.Shape) > 0 {
		return report.Finding{}, false
	}
	return report.Finding{
		ID: "other-process", Confidence: 0.68, Bytes: t.Requested.Bytes,
		Title: "another process has already taken the GPU's memory",
		Evidence: []string{
			fmt.Sprintf("TensorFlow asked the driver for %s at once, as it does for its pool when it starts, and did not get it", t.Requested.Bytes),
			"no tensor had been requested yet",
		},
		Refuted: "a message about a tensor that did not fit (OOM when allocating tensor)",
	}, true
}

// textFallback: more is allocated than the GPU has, so the driver spilled into main memory (Windows), or the numbers are
// those of a system that does not report them (WSL).
func textFallback(t *Text) (report.Finding, bool) {
	if t.Capacity.Known && t.Allocated.Known && t.Allocated.Bytes > t.Capacity.Bytes {
		return report.Finding{
			ID: "sysmem-fallback", Confidence: 0.9, Bytes: t.Allocated.Bytes - t.Capacity.Bytes,
			Title:    "the driver was already using main memory in place of the GPU's",
			Evidence: []string{fmt.Sprintf("%s is allocated on a GPU with %s: the Windows driver falls back to main memory, many times slower, before it fails", t.Allocated.Bytes, t.Capacity.Bytes)},
		}, true
	}
	unknown := t.Process.Text != "" && !t.Process.Known && !strings.HasPrefix(t.Process.Text, "0 ")
	if unknown && t.Free.Known && t.Requested.Known && t.Free.Bytes > t.Requested.Bytes {
		return report.Finding{
			ID: "wsl-pinned-memory", Confidence: 0.8,
			Title:    "memory was free: under WSL the limit is often pinned main memory",
			Evidence: []string{"the driver does not say what processes use (the 2^64 in the message), as under WSL, and the request was smaller than what was free"},
		}, true
	}
	return report.Finding{}, false
}

// contextSize bounds what a process takes of a GPU by merely touching it: a CUDA context, with NCCL or cuBLAS a little more
// (https://github.com/pytorch/pytorch/issues/23138 shows 725 MiB; 200 to 600 MiB are usual).
const (
	contextLeast = 150 * units.MiB
	contextMost  = units.GiB
)

// contexts counts the other processes when there are several and each holds a context, all about as much: they run the same program.
func (t *Text) contexts() (n int, sum units.Bytes) {
	self, listed := t.Self()
	least, most := contextMost, contextLeast
	for _, p := range t.Others {
		if listed && p == self || !p.Held.Known {
			continue
		}
		if p.Held.Bytes < contextLeast || p.Held.Bytes > contextMost {
			return 0, 0
		}
		n++
		sum += p.Held.Bytes
		least, most = min(least, p.Held.Bytes), max(most, p.Held.Bytes)
	}
	if n < 2 || 2*most > 3*least {
		return 0, 0
	}
	return n, sum
}

// textContexts: every process of a job has touched the first GPU.
func textContexts(t *Text) (report.Finding, bool) {
	n, sum := t.contexts()
	if !t.onDevice() || n == 0 || t.Device > 0 || t.cardHadRoom() {
		return report.Finding{}, false
	}
	_, list := t.others()
	f := report.Finding{
		ID: "rank0-contexts", Severity: report.Error, Confidence: 0.85, Bytes: sum,
		Title: fmt.Sprintf("%d other processes have a context on GPU 0, %s in all", n, sum),
		Evidence: []string{
			strings.Join(shortened(list), ", "),
			"each holds too little for a model: these are CUDA contexts of the ranks of one job, or of DataLoader workers, that used the first GPU before choosing their own",
		},
	}
	if !t.wouldServe(sum) {
		f.Severity = report.Warning
		f.Evidence = append(f.Evidence, fmt.Sprintf("without them there would still not have been room for the %s requested", t.Requested.Bytes))
	}
	return f, true
}

// ranksConfidence marks other processes that are likely ranks of the same job.
const ranksConfidence = 0.81

// textOtherProcess: other processes hold a good part of the GPU.
func textOtherProcess(t *Text) (report.Finding, bool) {
	if !t.onDevice() || t.cardHadRoom() {
		return report.Finding{}, false
	}
	named, list := t.others()
	if n, _ := t.contexts(); n > 0 && t.Device <= 0 {
		return report.Finding{}, false // told by textContexts
	}
	if !t.Capacity.Known || 10*named < t.Capacity.Bytes {
		return t.unnamed()
	}
	f := report.Finding{
		ID: "other-process", Severity: report.Error, Bytes: named, Confidence: holderConfidence(t, named),
		Title:    fmt.Sprintf("other processes hold %s of the GPU", named),
		Evidence: []string{strings.Join(shortened(list), ", ")},
	}
	if t.neighbours() {
		f.Confidence = ranksConfidence
		f.Title = fmt.Sprintf("other processes, likely of this same job, hold %s of the GPU", named)
		f.Evidence = append(f.Evidence, "their pids are close together, like those of the ranks or workers of one job: several of them share one GPU")
	}
	switch {
	case !t.wouldServe(named):
		f.Severity, f.Confidence = report.Warning, 0.6
		f.Evidence = append(f.Evidence, fmt.Sprintf("without them there would still not have been room for the %s requested", t.Requested.Bytes))
	case t.Requested.Known:
		f.Evidence = append(f.Evidence, fmt.Sprintf("without them there would have been room for the %s requested; a smaller batch only treats the symptom", t.Requested.Bytes))
	}
	return f, true
}

// neighbours tells other processes whose pids stand close together: one launcher started them.
func (t *Text) neighbours() bool {
	var pids []int
	self, listed := t.Self()
	for _, p := range t.Others {
		if p.Held.Known && (!listed || p != self) {
			pids = append(pids, p.PID)
		}
	}
	slices.Sort(pids)
	return len(pids) >= 2 && pids[len(pids)-1]-pids[0] <= 16*len(pids)
}

// cardHadRoom tells a failure that others on the GPU cannot have caused: the request was free to have, or a limit below the GPU
// was reached.
func (t *Text) cardHadRoom() bool {
	held, ok := t.held()
	capped := ok && t.Allowed.Known && t.Requested.Known && held+t.Requested.Bytes > t.Allowed.Bytes
	return capped || t.roomToSpare() && len(t.Others) > 0
}

// roomToSpare tells that clearly more was free than requested: more than the 20 MiB segment a small request takes, and more
// than the fiftieth of the GPU that comes and goes while libraries load.
func (t *Text) roomToSpare() bool {
	if !t.Free.Known || !t.Requested.Known {
		return false
	}
	free := t.Free.Bytes - t.Free.Within
	return free > max(t.Requested.Bytes, 20*units.MiB)+t.Requested.Within && (!t.Capacity.Known || 50*(free-t.Requested.Bytes) > t.Capacity.Bytes)
}

// unnamed: memory of the GPU that neither this process nor a named one holds. Messages before 2.1 name nobody; then the
// CUDA context of this process, up to about 1.5 GiB, is part of it.
func (t *Text) unnamed() (report.Finding, bool) {
	held, ok := t.held()
	if !ok || !t.Capacity.Known || !t.Free.Known {
		return report.Finding{}, false
	}
	own, context := held, 3*units.GiB/2
	if t.Process.Known {
		own, context = t.Process.Bytes, units.GiB/2
	} else if len(t.Others) > 0 || t.Process.Text != "" {
		return report.Finding{}, false // this process is one of those named, under another pid, or cannot be seen
	}
	named, _ := t.others()
	missing := t.Capacity.Bytes - t.Free.Bytes - own - named
	if missing < context || 8*missing < t.Capacity.Bytes || !t.wouldServe(missing) {
		return report.Finding{}, false
	}
	f := report.Finding{
		ID: "other-process", Bytes: missing, Confidence: 0.72,
		Title: fmt.Sprintf("%s of the GPU is held by something this process does not see", missing),
		Evidence: []string{
			fmt.Sprintf("%s on the GPU, %s free, %s held by this process: the rest is other processes, dead ones or another container", t.Capacity.Bytes, t.Free.Bytes, own),
		},
	}
	if 3*missing < t.Capacity.Bytes {
		f.Confidence = 0.6 // a desktop and its windows take that much
	}
	if t.Process.Known {
		f.ID = "orphan-memory" // PyTorch asked the driver who holds the GPU, and nobody was named
	}
	return f, true
}

// others sums what other processes hold. In a container this process is listed under a foreign pid: it is the one
// that holds at least what PyTorch holds here.
func (t *Text) others() (units.Bytes, []string) {
	self, isListed := t.Self()
	var sum units.Bytes
	var list []string
	for _, p := range t.Others {
		if isListed && p == self || !p.Held.Known {
			continue
		}
		sum += p.Held.Bytes
		list = append(list, fmt.Sprintf("process %d holds %s", p.PID, p.Held.Bytes.Short()))
	}
	return sum, list
}

// shortened keeps a list of processes readable.
func shortened(list []string) []string {
	const enough = 3
	if len(list) <= enough+1 {
		return list
	}
	return append(slices.Clone(list[:enough]), fmt.Sprintf("and %d more", len(list)-enough))
}

func holderConfidence(t *Text, named units.Bytes) float64 {
	if t.Requested.Known && named > t.Requested.Bytes && 4*named > t.Capacity.Bytes {
		return 0.95
	}
	return 0.8
}

// textOutside: this process holds much more than PyTorch does.
func textOutside(t *Text) (report.Finding, bool) {
	if t.OtherAllocations.Known && t.Allowed.Known && 4*t.OtherAllocations.Bytes > t.Allowed.Bytes {
		return report.Finding{
			ID: "non-pytorch-memory", Bytes: t.OtherAllocations.Bytes, Confidence: 0.85,
			Title:    fmt.Sprintf("%s of the limit is taken outside PyTorch's allocator", t.OtherAllocations.Bytes),
			Evidence: []string{fmt.Sprintf("%s is PyTorch's own; the rest counts too: buffers of the GPU driver, other libraries, compiled graphs", t.Allocated.Bytes)},
		}, true
	}
	held, ok := t.held()
	process := t.Process
	if self, listed := t.Self(); listed && !process.Known {
		process = self.Held
	}
	outside := process.Bytes - held
	if t.Kind != oomtext.DeviceOOM || !ok || !process.Known || outside < 3*units.GiB/2 || !t.wouldServe(outside) {
		return report.Finding{}, false
	}
	return report.Finding{
		ID: "non-pytorch-memory", Bytes: outside, Confidence: 0.75,
		Title:    fmt.Sprintf("%s of this process is not PyTorch's", outside),
		Evidence: []string{fmt.Sprintf("the process holds %s, PyTorch's allocator %s of it; a CUDA context takes 0.3 to 0.6 GiB", process.Bytes, held)},
	}, true
}

// textPools: memory that CUDA graphs keep for themselves.
func textPools(t *Text) (report.Finding, bool) {
	unused, _ := t.unused()
	if !t.PrivatePools.Known || !t.Requested.Known || t.PrivatePools.Bytes < t.Requested.Bytes || unused > t.PrivatePools.Bytes {
		return report.Finding{}, false
	}
	return report.Finding{
		ID: "cuda-graph-pools", Bytes: t.PrivatePools.Bytes, Confidence: 0.85,
		Title:    fmt.Sprintf("CUDA graphs keep %s for themselves", t.PrivatePools.Bytes),
		Evidence: []string{"free blocks in a graph's pool cannot be used by anything else while the graph exists"},
	}, true
}
