package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/oomtext"
	"github.com/plimsoll/plimsoll/internal/units"
)

var holderRules = []textRule{textAbsurd, textLargeTensor, textFallback, textContexts, textOtherProcess, textOutside, textPools}

// textAbsurd: the request alone is larger than the card.
func textAbsurd(t *Text) (report.Finding, bool) {
	q := t.Requested
	if t.Kind != oomtext.DeviceOOM {
		return report.Finding{}, false
	}
	beyond := q.Known && (q.Bytes >= units.TiB || t.Capacity.Known && q.Bytes > t.Capacity.Bytes)
	if !beyond && t.Format != "v22-1eb" && t.Format != "mps-buffer" {
		return report.Finding{}, false
	}
	f := report.Finding{
		ID: "absurd-request", Severity: report.Error, Confidence: 0.9, Bytes: q.Bytes,
		Title: "one tensor larger than the whole card was asked for",
		Remedies: []report.Remedy{
			{Action: "print the shapes at the line named here: a broadcast of (N,1) with (N), full attention scores, or a wrong size", CheckedBy: report.ByRule},
			{Action: "process it in chunks (one image tile, one slice of the sequence at a time)", CheckedBy: report.ByRule},
		},
	}
	switch {
	case t.Format == "v22-1eb":
		f.Confidence = 0.97
		f.Title = "more than an exabyte was asked for: a size went wrong"
		f.Evidence = []string{"a negative or overflowed size; after a collective that failed or timed out, look at that failure first"}
	case t.Capacity.Known:
		f.Evidence = []string{fmt.Sprintf("%s in one piece on a card of %s: freeing memory cannot help", q.Bytes, t.Capacity.Bytes)}
	default:
		f.Evidence = []string{fmt.Sprintf("%s in one piece", q.Bytes)}
	}
	return f, true
}

// textLargeTensor: the request alone is a good part of the card and as large as half of all that is in use.
func textLargeTensor(t *Text) (report.Finding, bool) {
	q := t.Requested
	if t.Kind != oomtext.DeviceOOM || !q.Known || !t.Capacity.Known || !t.Allocated.Known || q.Bytes > t.Capacity.Bytes {
		return report.Finding{}, false
	}
	if 4*q.Bytes < t.Capacity.Bytes || 2*q.Bytes < t.Allocated.Bytes {
		return report.Finding{}, false
	}
	return report.Finding{
		ID: "one-large-tensor", Confidence: 0.7, Bytes: q.Bytes,
		Title:    fmt.Sprintf("one tensor of %s did not fit beside %s in use", q.Bytes, t.Allocated.Bytes),
		Evidence: []string{fmt.Sprintf("it is %d%% of the %s there are", 100*q.Bytes/t.Capacity.Bytes, t.Capacity.Bytes)},
	}, true
}

// textFallback: more is allocated than the card has, so the driver spilled into main memory (Windows), or the numbers are
// those of a system that does not report them (WSL).
func textFallback(t *Text) (report.Finding, bool) {
	if t.Capacity.Known && t.Allocated.Known && t.Allocated.Bytes > t.Capacity.Bytes {
		return report.Finding{
			ID: "sysmem-fallback", Severity: report.Error, Confidence: 0.9, Bytes: t.Allocated.Bytes - t.Capacity.Bytes,
			Title:    "the driver was already using main memory in place of the card's",
			Evidence: []string{fmt.Sprintf("%s are allocated on a card of %s: Windows' driver spills into main memory, many times slower, before it fails", t.Allocated.Bytes, t.Capacity.Bytes)},
			Remedies: []report.Remedy{
				{Action: `NVIDIA Control Panel: "CUDA - Sysmem Fallback Policy" to "Prefer No Sysmem Fallback", to fail early instead`, CheckedBy: report.ByRule},
				{Action: "fit the job to the card: smaller batch, checkpointing, 16-bit", CheckedBy: report.ByRule},
			},
		}, true
	}
	if t.Process.Text != "" && !t.Process.Known && t.Free.Known && t.Requested.Known && t.Free.Bytes > t.Requested.Bytes {
		return report.Finding{
			ID: "wsl-pinned-memory", Severity: report.Error, Confidence: 0.8,
			Title:    "memory was free: under WSL the limit is often pinned main memory",
			Evidence: []string{"the driver does not say what processes use (the 2^64 in the message), as under WSL, and the request was smaller than what was free"},
			Remedies: []report.Remedy{{Action: "DataLoader(pin_memory=False), a newer driver, more memory for WSL in .wslconfig", CheckedBy: report.ByRule}},
		}, true
	}
	return report.Finding{}, false
}

// contextSize bounds what a process takes of a card by merely touching it: a CUDA context, with NCCL or cuBLAS a little more
// (pytorch issue 23138 shows 725 MiB; 200 to 600 MiB are usual).
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

// textContexts: every process of a job has touched the first card.
func textContexts(t *Text) (report.Finding, bool) {
	n, sum := t.contexts()
	if t.Kind != oomtext.DeviceOOM || n == 0 || t.Device > 0 || t.cardHadRoom() {
		return report.Finding{}, false
	}
	_, list := t.others()
	f := report.Finding{
		ID: "rank0-contexts", Severity: report.Error, Confidence: 0.85, Bytes: sum,
		Title: fmt.Sprintf("%d other processes have a context on GPU 0, %s in all", n, sum),
		Evidence: []string{
			strings.Join(shortened(list), ", "),
			"so little each is no model but a CUDA context: the ranks of one job, or DataLoader workers, that touched the first card before choosing their own",
		},
		Remedies: []report.Remedy{
			{Action: "torch.cuda.set_device(local_rank) before any other CUDA call in every rank", Saves: sum, CheckedBy: report.ByArithmetic},
			{Action: `torch.load(path, map_location="cpu"): without it every rank loads to the card it was saved from`, Saves: sum, CheckedBy: report.ByArithmetic},
			{Action: "keep CUDA out of datasets and collate functions", CheckedBy: report.ByRule},
		},
	}
	if t.Requested.Known && sum < t.Requested.Bytes {
		f.Severity = report.Warning
		f.Evidence = append(f.Evidence, fmt.Sprintf("without them the %s asked for would still not have been there", t.Requested.Bytes))
	}
	return f, true
}

// textOtherProcess: other processes hold a good part of the card.
func textOtherProcess(t *Text) (report.Finding, bool) {
	if t.Kind != oomtext.DeviceOOM || t.cardHadRoom() {
		return report.Finding{}, false
	}
	named, list := t.others()
	if n, _ := t.contexts(); n > 0 && t.Device <= 0 {
		return report.Finding{}, false // told by textContexts
	}
	if t.Capacity.Known && 10*named >= t.Capacity.Bytes {
		f := report.Finding{
			ID: "other-process", Severity: report.Error, Bytes: named, Confidence: holderConfidence(t, named),
			Title:    fmt.Sprintf("other processes hold %s of the card", named),
			Evidence: []string{strings.Join(shortened(list), ", ")},
		}
		if t.Requested.Known && t.Requested.Bytes < named {
			f.Evidence = append(f.Evidence, fmt.Sprintf("without them the %s asked for would have been there; a smaller batch treats the symptom", t.Requested.Bytes))
		}
		f.Remedies = []report.Remedy{
			{Action: "end them or wait for them: nvidia-smi, then look at the command behind each pid", Saves: named, CheckedBy: report.ByArithmetic},
			{Action: "another card: CUDA_VISIBLE_DEVICES=1", Saves: named, CheckedBy: report.ByArithmetic, Command: "export CUDA_VISIBLE_DEVICES=1"},
		}
		return f, true
	}
	return t.unnamed()
}

// cardHadRoom tells a failure that others on the card cannot have caused: the request was free to have, or a limit below the card
// was reached.
func (t *Text) cardHadRoom() bool {
	held, ok := t.held()
	capped := ok && t.Allowed.Known && t.Requested.Known && held+t.Requested.Bytes > t.Allowed.Bytes
	return capped || t.roomToSpare() && len(t.Others) > 0
}

// roomToSpare tells that clearly more was free than asked for: more than the 20 MiB segment a small request takes, and more
// than the fiftieth of the card that comes and goes while libraries load.
func (t *Text) roomToSpare() bool {
	if !t.Free.Known || !t.Requested.Known {
		return false
	}
	free := t.Free.Bytes - t.Free.Within
	return free > max(t.Requested.Bytes, 20*units.MiB)+t.Requested.Within && (!t.Capacity.Known || 50*free > t.Capacity.Bytes)
}

// unnamed: memory of the card that neither this process nor a named one holds. Messages before 2.1 name nobody; then the
// CUDA context of this process, up to about 1.5 GiB, is part of it.
func (t *Text) unnamed() (report.Finding, bool) {
	held, ok := t.held()
	if !ok || !t.Capacity.Known || !t.Free.Known {
		return report.Finding{}, false
	}
	own, context := held, 3*units.GiB/2
	if t.Process.Known {
		own, context = t.Process.Bytes, units.GiB/2
	} else if len(t.Others) > 0 {
		return report.Finding{}, false // this process is one of those named, under another pid
	}
	named, _ := t.others()
	missing := t.Capacity.Bytes - t.Free.Bytes - own - named
	if missing < context || 8*missing < t.Capacity.Bytes {
		return report.Finding{}, false
	}
	f := report.Finding{
		ID: "other-process", Severity: report.Error, Bytes: missing, Confidence: 0.72,
		Title: fmt.Sprintf("%s of the card are held by something this process does not see", missing),
		Evidence: []string{
			fmt.Sprintf("%s on the card, %s free, %s held by this process: the rest is other processes, dead ones or another container", t.Capacity.Bytes, t.Free.Bytes, own),
		},
		Remedies: []report.Remedy{
			{Action: "look for holders: nvidia-smi; fuser -v /dev/nvidia* also finds dead parents' workers and other containers", Saves: missing, CheckedBy: report.ByArithmetic},
		},
	}
	if t.Process.Known {
		f.ID = "orphan-memory" // PyTorch asked the driver who holds the card, and nobody was named
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
			ID: "non-pytorch-memory", Severity: report.Error, Bytes: t.OtherAllocations.Bytes, Confidence: 0.85,
			Title:    fmt.Sprintf("%s of the limit are taken outside PyTorch's allocator", t.OtherAllocations.Bytes),
			Evidence: []string{fmt.Sprintf("%s are PyTorch's own; the rest counts too: buffers of the system's GPU driver, other libraries, compiled graphs", t.Allocated.Bytes)},
			Remedies: []report.Remedy{
				{Action: "torch.mps.empty_cache() between phases, fewer different shapes (each compiles a graph that keeps buffers)", CheckedBy: report.ByRule},
				{Action: "close other programs that use the GPU: its memory is the computer's", CheckedBy: report.ByRule},
			},
		}, true
	}
	held, ok := t.held()
	process := t.Process
	if self, listed := t.Self(); listed && !process.Known {
		process = self.Held
	}
	if !ok || !process.Known || process.Bytes-held < 3*units.GiB/2 {
		return report.Finding{}, false
	}
	outside := process.Bytes - held
	return report.Finding{
		ID: "non-pytorch-memory", Severity: report.Error, Bytes: outside, Confidence: 0.75,
		Title:    fmt.Sprintf("%s of this process are not PyTorch's", outside),
		Evidence: []string{fmt.Sprintf("the process holds %s, PyTorch's allocator %s of it; a CUDA context takes 0.3 to 0.6 GiB", process.Bytes, held)},
		Remedies: []report.Remedy{
			{Action: "find it: other libraries on the card (vLLM, TensorFlow, JAX, CuPy), NCCL buffers (NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=ALLOC)", Saves: outside, CheckedBy: report.ByArithmetic},
		},
	}, true
}

// textPools: memory that CUDA graphs keep for themselves.
func textPools(t *Text) (report.Finding, bool) {
	if !t.PrivatePools.Known || !t.Requested.Known || t.PrivatePools.Bytes < t.Requested.Bytes {
		return report.Finding{}, false
	}
	return report.Finding{
		ID: "cuda-graph-pools", Severity: report.Error, Bytes: t.PrivatePools.Bytes, Confidence: 0.85,
		Title:    fmt.Sprintf("CUDA graphs keep %s for themselves", t.PrivatePools.Bytes),
		Evidence: []string{"free blocks of a graph's pool serve nothing else while the graph lives"},
		Remedies: []report.Remedy{
			{Action: `torch.compile without mode="reduce-overhead", or fewer graph sizes`, Saves: t.PrivatePools.Bytes, CheckedBy: report.ByArithmetic},
		},
	}, true
}
