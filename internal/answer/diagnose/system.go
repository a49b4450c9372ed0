package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/oomtext"
	"github.com/plimsoll/plimsoll/internal/units"
)

var systemRules = []textRule{textHost, textHugeArray, textWorkers, textNotOOM, textLibrary, textRefused, textCache, textNoRoom, textGaveUp}

// hostTitles say what ran out, by who says so.
var hostTitles = map[string]string{
	"slurm":      "the job used more main memory than Slurm gave it",
	"kubernetes": "the node ran out of main memory, and Kubernetes evicted the pod",
	"colab":      "the notebook used all main memory of its Colab runtime",
	"kaggle":     "the notebook used all main memory of its Kaggle session",
	"windows":    "Windows ran out of memory: the paging file is too small",
	"ray":        "the node ran out of main memory, and Ray killed the task",
	"numpy":      "an array does not fit in main memory",
	"ollama":     "the model needs more main memory than is available",
	"kernel":     "main memory ran out, and the kernel killed the process",
}

// textHost: main memory ran out, not the GPU's.
func textHost(t *Text) (report.Finding, bool) {
	if t.Kind != oomtext.HostOOM && t.Kind != oomtext.SharedOOM {
		return report.Finding{}, false
	}
	f := report.Finding{
		ID: "host-oom", Confidence: 0.95, Bytes: t.Requested.Bytes,
		Title:    "main memory ran out, not the GPU's",
		Evidence: []string{"this is not GPU memory: GPU settings make no difference"},
	}
	if title, ok := hostTitles[t.Library]; ok {
		f.Title = title
	}
	switch {
	case t.Kind == oomtext.SharedOOM:
		f.Title = "/dev/shm, where worker processes pass batches, is full"
	case t.Format == "killed" && t.Certain && t.Library == "":
		f.Title = "the container reached its limit of main memory and was killed"
	case !t.Certain:
		f.Confidence = 0.75
		f.Title = "the process was killed, most likely because main memory ran out"
		if t.Format == "other" {
			f.Confidence, f.Title = 0.6, "an allocation failed, most likely of main memory"
		} else {
			f.Evidence = append(f.Evidence, "SIGKILL comes from the kernel's out-of-memory killer, a memory limit of the container or job, or a person: dmesg -T shows which")
		}
	}
	if t.Requested.Known {
		f.Evidence = append(f.Evidence, fmt.Sprintf("%s was requested in main memory", t.Requested.Bytes))
	}
	if t.Process.Known && t.Capacity.Known {
		f.Evidence = append(f.Evidence, fmt.Sprintf("%s of %s was in use", t.Process.Bytes, t.Capacity.Bytes))
	}
	if t.Free.Known {
		f.Evidence = append(f.Evidence, fmt.Sprintf("%s was available", t.Free.Bytes))
	}
	return f, true
}

// pairs is how long both sides of a matrix are that pairs every element with every other.
const pairs = 20_000

// textHugeArray: an array of main memory whose shape cannot be meant.
func textHugeArray(t *Text) (report.Finding, bool) {
	if t.Kind != oomtext.HostOOM || len(t.Shape) < 2 || t.Requested.Bytes < 4*units.GiB {
		return report.Finding{}, false
	}
	dims := slices.Sorted(slices.Values(t.Shape))
	a, b := dims[len(dims)-1], dims[len(dims)-2]
	if b < pairs {
		return report.Finding{}, false
	}
	return report.Finding{
		ID: "absurd-request", Confidence: 0.96, Bytes: t.Requested.Bytes,
		Title:    fmt.Sprintf("an array of %s × %s elements was requested", units.Count(int(a)), units.Count(int(b))),
		Evidence: []string{fmt.Sprintf("both sides are long, so it pairs everything with everything, or a size was computed wrongly: %s", t.Requested.Bytes)},
	}, true
}

// textWorkers: CUDA was touched in a forked worker.
func textWorkers(t *Text) (report.Finding, bool) {
	if t.Kind != oomtext.WorkerCUDA {
		return report.Finding{}, false
	}
	return report.Finding{
		ID: "cuda-in-workers", Confidence: 0.95,
		Title:    "CUDA is used inside DataLoader workers",
		Evidence: []string{"a forked process cannot use the parent's CUDA context, and each that makes its own takes hundreds of MiB of the GPU"},
	}, true
}

// textNotOOM: memory on the chip has nothing to do with the GPU's memory.
func textNotOOM(t *Text) (report.Finding, bool) {
	if t.Kind != oomtext.NotAnOOM {
		return report.Finding{}, false
	}
	f := report.Finding{
		ID: "not-an-oom", Confidence: 0.97,
		Title:    "this is not the GPU's memory: a kernel wants more on-chip shared memory than an SM has",
		Evidence: []string{"the numbers are kilobytes of one multiprocessor, so batch size, checkpointing and empty_cache() change nothing"},
	}
	if t.Library == "jax" {
		f.Title = "this is not the device's main memory: a kernel wants more of the on-chip memory than there is"
		f.Evidence = []string{"the memory space named is on the chip: smaller blocks in the kernel, or another implementation of the operation"}
	}
	return f, true
}

// textLibrary: a library's error that means the GPU was full.
func textLibrary(t *Text) (report.Finding, bool) {
	if t.Kind != oomtext.LibraryOOM {
		return report.Finding{}, false
	}
	f := report.Finding{
		ID: "library-oom", Confidence: 0.85,
		Title:    fmt.Sprintf("an out-of-memory error in disguise: %s could not get memory", libraryName(t.Library)),
		Evidence: []string{"libraries take memory outside the framework's allocator, which had cached what was left, so its own counters may look harmless"},
	}
	if phase, frame := t.Phase(); phase != oomtext.PhaseOther && frame.File != "" {
		f.Evidence = append(f.Evidence, fmt.Sprintf("it happened in the %s phase: %s", phase, place(frame)))
	}
	if !t.Certain {
		f.Confidence = 0.6
		f.Evidence = append(f.Evidence, "this status has other causes too: a wrong device index, a broken driver, or an assertion in an earlier kernel (run with CUDA_LAUNCH_BLOCKING=1)")
	}
	return f, true
}

func libraryName(library string) string {
	names := map[string]string{"cublas": "cuBLAS", "cudnn": "cuDNN", "cufft": "cuFFT", "nccl": "NCCL", "nvml": "NVML", "driver": "the GPU's driver", "cusolver": "cuSOLVER", "cusparse": "cuSPARSE", "curand": "cuRAND", "hipblas": "hipBLAS", "rocblas": "rocBLAS", "miopen": "MIOpen"}
	if n, ok := names[strings.ToLower(library)]; ok {
		return n
	}
	if library == "" {
		return "the GPU's driver"
	}
	return library
}

// textRefused: a program checked for free memory before it started.
func textRefused(t *Text) (report.Finding, bool) {
	if t.Kind != oomtext.Refused {
		return report.Finding{}, false
	}
	f := report.Finding{
		ID: "other-process", Confidence: 0.8,
		Title:    "too much of the GPU was taken before this program started",
		Evidence: []string{"the program compares what is free with what it was told to use, and refused to start"},
	}
	if t.Free.Known {
		f.Evidence = append(f.Evidence, fmt.Sprintf("only %s was free", t.Free.Text))
	}
	return f, true
}

// textCache: a server or runner has no room for its KV cache.
func textCache(t *Text) (report.Finding, bool) {
	grows := t.Library == "ggml" && (t.Purpose == "cache" || t.Purpose == "compute")
	if t.Kind != oomtext.CacheFull && !grows {
		return report.Finding{}, false
	}
	f := report.Finding{
		ID: "kv-cache", Confidence: 0.88, Bytes: t.Requested.Bytes,
		Title: "the model fits, but its KV cache does not",
	}
	switch {
	case t.Room > 0 && t.Tokens > 0:
		f.Evidence = []string{fmt.Sprintf("requests may be %s tokens long, and the cache has room for %s", units.Count(t.Tokens), units.Count(t.Room))}
	case grows:
		f.Title = "the weights fit, but not the cache and buffers that grow with the context and batch"
		f.Evidence = []string{"the weights were loaded; the request that failed was for the context"}
	case t.Requested.Known && t.Free.Known:
		f.Evidence = []string{fmt.Sprintf("one request of full length needs %s of cache, and %s is left", t.Requested.Bytes, t.Free.Bytes)}
	default:
		f.Evidence = []string{"the server measured what the model leaves free, and it is not enough for the requests it was told to accept"}
	}
	if t.Room > 0 && t.Library == "vllm" {
		f.Remedies = []report.Remedy{{
			Action: fmt.Sprintf("--max-model-len %d: the longest that fits", t.Room), CheckedBy: report.ByArithmetic, AppliesTo: &report.Applies{Framework: []string{"vllm"}},
		}, {
			Action: "or more room: --gpu-memory-utilization 0.95 if nothing else runs on the GPU, --kv-cache-dtype fp8, --tensor-parallel-size 2", CheckedBy: report.ByRule, AppliesTo: &report.Applies{Framework: []string{"vllm"}},
		}}
	}
	return f, true
}

// textNoRoom: a loader or runner could not put the weights on the device.
func textNoRoom(t *Text) (report.Finding, bool) {
	weights := t.onDevice() && t.Purpose == "weights"
	if t.Kind != oomtext.NoRoom && !weights {
		return report.Finding{}, false
	}
	f := report.Finding{
		ID: "model-load", Confidence: 0.9, Bytes: t.Requested.Bytes,
		Title:    "the model's weights do not fit on the GPU",
		Evidence: []string{"it failed while the weights were loaded, before any input"},
	}
	if t.Requested.Known {
		f.Evidence = append(f.Evidence, fmt.Sprintf("%s was requested for them in one piece", t.Requested.Bytes))
	}
	return f, true
}

// textGaveUp: a batch-size finder met an error at every size.
func textGaveUp(t *Text) (report.Finding, bool) {
	if t.Kind != oomtext.GaveUp {
		return report.Finding{}, false
	}
	return report.Finding{
		ID: "model-too-large", Confidence: 0.65,
		Title:    "not even a batch of one fits: the model and its optimizer are too large, or something else holds the GPU",
		Evidence: []string{"a finder halved the batch down to nothing, so the batch is not what takes the memory"},
		Refuted:  "an earlier failed attempt whose exception kept its tensors alive during the retries",
	}, true
}
