package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/finding"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/oomtext"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Text is a message with what is known around it.
type Text struct {
	oomtext.Message
	Earlier []oomtext.Message // messages of the same rank before it
	Hints   []oomtext.Hint    // warnings in the same log
}

// textRule looks at a message and speaks or stays silent.
type textRule func(*Text) (report.Finding, bool)

// textRules are listed where they are written, in the order of the questions a person should ask: is it memory of the card at all, who holds it, is
// the request sane, was it free, what was the program doing. The last one always speaks.
func textRules() []textRule { return slices.Concat(systemRules, holderRules, symptomRules) }

var systemRules = []textRule{textHost, textWorkers, textNotOOM, textLibrary, textRefused, textGaveUp}

// RunText applies every rule to a message. General findings are made only where nothing better was.
func RunText(t *Text) []report.Finding {
	var found []report.Finding
	for _, r := range textRules() {
		f, ok := r(t)
		if !ok || finding.Is(f.ID, finding.General) && slices.ContainsFunc(found, explainsAll) {
			continue
		}
		f.Device = max(t.Device, 0)
		if len(f.Where) == 0 {
			f.Where = t.where()
		}
		finding.Complete(&f, finding.Trainer)
		found = append(found, f)
	}
	Rank(found)
	return found
}

// explainsAll tells a finding after which "the card is simply full" adds nothing.
func explainsAll(f report.Finding) bool { return f.Severity == report.Error && f.Confidence >= 0.6 }

// where is the user's line in the traceback.
func (t *Text) where() []report.Place {
	f, ok := t.UserFrame()
	if !ok {
		return []report.Place{}
	}
	return []report.Place{{File: f.File, Line: f.Line, Function: f.Function}}
}

// held is what PyTorch holds from the driver.
func (t *Text) held() (units.Bytes, bool) {
	switch {
	case t.Reserved.Known:
		return t.Reserved.Bytes, true
	case t.Allocated.Known && t.ReservedUnallocated.Known:
		return t.Allocated.Bytes + t.ReservedUnallocated.Bytes, true
	case t.Allocated.Known:
		return t.Allocated.Bytes, true
	}
	return 0, false
}

// unused is what PyTorch holds and does not use.
func (t *Text) unused() (units.Bytes, bool) {
	if t.ReservedUnallocated.Known {
		return t.ReservedUnallocated.Bytes, true
	}
	if t.Reserved.Known && t.Allocated.Known && t.Reserved.Bytes >= t.Allocated.Bytes {
		return t.Reserved.Bytes - t.Allocated.Bytes, true
	}
	return 0, false
}

// textHost: main memory ran out, not the card's.
func textHost(t *Text) (report.Finding, bool) {
	if t.Kind != oomtext.HostOOM && t.Kind != oomtext.SharedOOM {
		return report.Finding{}, false
	}
	f := report.Finding{
		ID: "host-oom", Severity: report.Error, Confidence: 0.95, Bytes: t.Requested.Bytes,
		Title:    "main memory ran out, not the GPU's",
		Evidence: []string{"nothing about the batch size on the card changes this"},
		Remedies: []report.Remedy{
			{Action: "fewer DataLoader workers (each is a copy of the dataset's Python objects), smaller prefetch_factor", CheckedBy: report.ByRule},
			{Action: "keep samples in NumPy or Arrow arrays, not in lists of Python objects: reference counts make forked workers copy them", CheckedBy: report.ByRule},
		},
	}
	switch {
	case t.Kind == oomtext.SharedOOM:
		f.Title = "/dev/shm, where DataLoader workers pass batches, is full"
		f.Remedies = append([]report.Remedy{{Action: "a larger /dev/shm: docker run --ipc=host (or --shm-size=16g)", CheckedBy: report.ByRule}}, f.Remedies...)
	case !t.Certain:
		f.Confidence = 0.75
		f.Title = "the process was killed, most likely because main memory ran out"
		f.Evidence = append(f.Evidence, "a SIGKILL comes from the kernel's out-of-memory killer, a cgroup limit, or a person: dmesg -T tells")
	}
	if t.Requested.Known {
		f.Evidence = append(f.Evidence, fmt.Sprintf("%s were asked for on the host", t.Requested.Bytes))
	}
	return f, true
}

// textWorkers: CUDA was touched in a forked worker.
func textWorkers(t *Text) (report.Finding, bool) {
	if t.Kind != oomtext.WorkerCUDA {
		return report.Finding{}, false
	}
	return report.Finding{
		ID: "cuda-in-workers", Severity: report.Error, Confidence: 0.95,
		Title:    "CUDA is used inside DataLoader workers",
		Evidence: []string{"a forked process cannot use the parent's CUDA context, and each that makes its own takes hundreds of MiB of the card"},
		Remedies: []report.Remedy{{Action: "return CPU tensors from the dataset and collate_fn; move the batch in the training loop", CheckedBy: report.ByRule}},
	}, true
}

// textNotOOM: Triton's shared memory is on the chip and has nothing to do with the card's memory.
func textNotOOM(t *Text) (report.Finding, bool) {
	if t.Kind != oomtext.NotAnOOM {
		return report.Finding{}, false
	}
	return report.Finding{
		ID: "not-an-oom", Severity: report.Error, Confidence: 0.97,
		Title:    "this is not the card's memory: a kernel wants more on-chip shared memory than an SM has",
		Evidence: []string{"the numbers are kilobytes of one multiprocessor, so batch size, checkpointing and empty_cache() change nothing"},
		Remedies: []report.Remedy{{Action: "smaller block sizes or num_stages in the kernel, or a kernel built for this card", CheckedBy: report.ByRule}},
	}, true
}

// textLibrary: a library's error that means the card was full.
func textLibrary(t *Text) (report.Finding, bool) {
	if t.Kind != oomtext.LibraryOOM {
		return report.Finding{}, false
	}
	f := report.Finding{
		ID: "library-oom", Severity: report.Error, Confidence: 0.85,
		Title:    fmt.Sprintf("an out-of-memory error in disguise: %s could not get memory", libraryName(t.Library)),
		Evidence: []string{"libraries take memory outside PyTorch's allocator; PyTorch had cached what was left, so its own counters may look harmless"},
		Remedies: []report.Remedy{
			{Action: "leave room: torch.cuda.set_per_process_memory_fraction(0.9), or a smaller batch", CheckedBy: report.ByRule},
			{Action: "see who else is on the card: plimsoll watch --once, or nvidia-smi", CheckedBy: report.ByRule},
		},
	}
	if !t.Certain {
		f.Confidence = 0.6
		f.Evidence = append(f.Evidence, "this status has other causes too: a wrong device index, a broken driver, or an assertion in an earlier kernel (run with CUDA_LAUNCH_BLOCKING=1)")
	}
	return f, true
}

func libraryName(library string) string {
	names := map[string]string{"cublas": "cuBLAS", "cudnn": "cuDNN", "cufft": "cuFFT", "nccl": "NCCL", "nvml": "NVML", "driver": "the CUDA driver", "cusolver": "cuSOLVER", "cusparse": "cuSPARSE", "curand": "cuRAND"}
	if n, ok := names[strings.ToLower(library)]; ok {
		return n
	}
	if library == "" {
		return "the CUDA driver"
	}
	return library
}

// textRefused: a program checked for free memory before it started.
func textRefused(t *Text) (report.Finding, bool) {
	if t.Kind != oomtext.Refused {
		return report.Finding{}, false
	}
	return report.Finding{
		ID: "other-process", Severity: report.Error, Confidence: 0.8,
		Title:    "too much of the card was taken before this program started",
		Evidence: []string{fmt.Sprintf("only %s were free", t.Free.Text)},
		Remedies: []report.Remedy{
			{Action: "see who holds the rest: plimsoll watch --once, or nvidia-smi", CheckedBy: report.ByRule},
			{Action: "a lower gpu_memory_utilization", CheckedBy: report.ByRule},
		},
	}, true
}

// textGaveUp: a batch-size finder met an error at every size.
func textGaveUp(t *Text) (report.Finding, bool) {
	if t.Kind != oomtext.GaveUp {
		return report.Finding{}, false
	}
	return report.Finding{
		ID: "model-too-large", Severity: report.Error, Confidence: 0.65,
		Title:    "not even a batch of one fits: the model and its optimizer are too large, or something else holds the card",
		Evidence: []string{"a finder halved the batch down to nothing, so the batch is not what takes the memory"},
		Remedies: []report.Remedy{
			{Action: "predict it: plimsoll predict --config config.json --batch 1 --gpu NAME", CheckedBy: report.ByRule},
			{Action: "train adapters (LoRA), use an 8-bit optimizer, or shard over several cards", CheckedBy: report.ByRule, Numerics: true},
		},
	}, true
}
