package diagnose

import (
	"fmt"
	"strings"

	"github.com/plimsoll/plimsoll/internal/oomtext"
	"github.com/plimsoll/plimsoll/internal/report"
	"github.com/plimsoll/plimsoll/internal/units"
)

// textExceptionHolds: attempt after attempt fails although the requests shrink, because the failed attempt is still held.
func textExceptionHolds(t *Text) (report.Finding, bool) {
	if t.Kind != oomtext.DeviceOOM || len(t.Earlier) == 0 || !t.Allocated.Known {
		return report.Finding{}, false
	}
	first := t.Earlier[0]
	shrinking := first.Requested.Known && t.Requested.Known && t.Requested.Bytes < first.Requested.Bytes
	kept := first.Allocated.Known && 20*t.Allocated.Bytes >= 19*first.Allocated.Bytes
	if !shrinking || !kept {
		return report.Finding{}, false
	}
	return report.Finding{
		ID: "exception-holds-tensors", Severity: report.Error, Confidence: 0.9, Bytes: t.Allocated.Bytes,
		Title: "the caught error keeps the failed attempt alive, so every retry fails",
		Evidence: []string{
			fmt.Sprintf("the requests shrank from %s to %s, but %s stayed allocated (%s at the first failure)", first.Requested.Bytes, t.Requested.Bytes, t.Allocated.Bytes, first.Allocated.Bytes),
			"the traceback of an exception refers to the frames it passed through, and they to their tensors, until the except block is left",
		},
		Refuted:  "a retry outside the except block that fails the same way",
		Remedies: []report.Remedy{{Action: "only set a flag inside except, leave the block, then retry", CheckedBy: report.ByRule}},
	}, true
}

// textFreeButFails: less was asked for than was free.
func textFreeButFails(t *Text) (report.Finding, bool) {
	if t.Kind != oomtext.DeviceOOM || !t.Requested.Known {
		return report.Finding{}, false
	}
	if t.Format == "xpu-block" {
		return t.symptom("free-but-fails", 0.95, "this platform gives no single block above 4 GB, however much is free",
			"the driver refuses by size, not for want of memory", "smaller tensors: split the batch or the sequence"), true
	}
	if !t.roomToSpare() {
		return report.Finding{}, false
	}
	f := report.Finding{
		ID: "free-but-fails", Severity: report.Error, Confidence: 0.75, Bytes: t.Requested.Bytes,
		Title: fmt.Sprintf("%s were free and %s asked for: the card's memory was not the limit", t.Free.Bytes, t.Requested.Bytes),
		Evidence: []string{
			"a smaller batch is the wrong first answer",
		},
		Refuted: "a reading of free memory taken after the failure, when something had been released",
		Remedies: []report.Remedy{
			{Action: "look for a limit below the card: a memory fraction, MIG, a container or scheduler quota", CheckedBy: report.ByRule},
			{Action: "under WSL or Windows: DataLoader(pin_memory=False), a newer driver", CheckedBy: report.ByRule},
			{Action: "check that the job runs on the card you think: CUDA_VISIBLE_DEVICES, device index", CheckedBy: report.ByRule},
		},
	}
	if held, ok := t.held(); ok && t.Allowed.Known && held+t.Requested.Bytes > t.Allowed.Bytes {
		f.Confidence = 0.97
		f.Title = fmt.Sprintf("a limit of %s was set for this process, below the card's %s", t.Allowed.Bytes, t.Capacity.Bytes)
		f.Evidence = append(f.Evidence, fmt.Sprintf("PyTorch held %s and wanted %s more; %s were still free on the card", held, t.Requested.Bytes, t.Free.Bytes))
		f.Remedies = []report.Remedy{{Action: "raise the fraction: torch.cuda.set_per_process_memory_fraction(1.0), or per_process_memory_fraction in the allocator settings", CheckedBy: report.ByRule}}
	}
	return f, true
}

// textFragmentation: PyTorch itself held enough, in pieces.
func textFragmentation(t *Text) (report.Finding, bool) {
	unused, ok := t.unused()
	if t.Kind != oomtext.DeviceOOM || !ok || !t.Requested.Known || unused < t.Requested.Bytes {
		return report.Finding{}, false
	}
	if t.Capacity.Known && 20*unused < t.Capacity.Bytes {
		return report.Finding{}, false
	}
	f := report.Finding{
		ID: "fragmentation", Severity: report.Error, Confidence: 0.82, Bytes: unused,
		Title:    fmt.Sprintf("fragmentation: PyTorch held %s unused, but in pieces", unused),
		Evidence: []string{fmt.Sprintf("%s were asked for while %s of what PyTorch holds was not in use", t.Requested.Bytes, unused)},
		Refuted:  "a replay of a snapshot (plimsoll replay) that fails under expandable_segments too",
		Remedies: []report.Remedy{
			{Action: "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (PyTorch 2.1+), alone", Saves: unused, CheckedBy: report.ByRule, Command: "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"},
			{Action: "fewer different shapes: pad or bucket the lengths", CheckedBy: report.ByRule},
		},
	}
	return f, true
}

// textTraceback: what the program was doing says what the memory is for.
func textTraceback(t *Text) (report.Finding, bool) {
	if t.Kind != oomtext.DeviceOOM {
		return report.Finding{}, false
	}
	phase, frame := t.Phase()
	seen := fmt.Sprintf("the traceback passes %s", place(frame))
	switch {
	case t.passes("state_dict", "save_checkpoint", "_save"):
		return t.symptom("checkpoint-save", 0.7, "saving a checkpoint needed more", seen, "save sharded or offloaded to the CPU; call torch.cuda.empty_cache() once before"), true
	case t.passes("data_parallel.py"):
		return t.symptom("data-parallel", 0.75, "nn.DataParallel fills the first card before the others", seen, "DistributedDataParallel, one process a card"), true
	case phase == oomtext.PhaseLoad:
		return t.symptom("model-load", 0.85, "there was no room for the model itself", seen, "load in 16 bits or quantised, on the CPU first; a smaller batch cannot help"), true
	case phase == oomtext.PhaseOptimizer && t.passes("_init_group", "zeros_like"):
		return t.symptom("optimizer-state-first-step", 0.85, "the optimizer's state did not fit", seen, "8-bit Adam, Adafactor or SGD; ZeRO/FSDP shards it"), true
	case phase == oomtext.PhaseOptimizer:
		return t.symptom("optimizer-step-temporaries", 0.75, "the optimizer's step did not fit", seen+": Adam's state appears in the first step, and foreach needs a temporary as large as the parameters", "fused=True or foreach=False in the optimizer; 8-bit Adam"), true
	case phase == oomtext.PhaseEval:
		return t.symptom("eval-graph-kept", 0.6, "it failed in evaluation", seen, "torch.inference_mode() around evaluation, a smaller evaluation batch, outputs collected on the CPU"), true
	case t.passes("cross_entropy", "lm_head", "nll_loss"):
		return t.symptom("logits", 0.7, "the logits over the whole vocabulary were next", seen, "fused or chunked cross-entropy, shorter sequences"), true
	case t.passes("softmax", "attention"):
		return t.symptom("attention-quadratic", 0.6, "attention asked for it: scores grow with the square of the sequence", seen, `attn_implementation="sdpa" or FlashAttention, shorter sequences`), true
	}
	return report.Finding{}, false
}

func (t *Text) symptom(id string, confidence float64, title, evidence, action string) report.Finding {
	return report.Finding{
		ID: id, Severity: report.Error, Confidence: confidence, Title: title, Evidence: []string{evidence}, Bytes: t.Requested.Bytes,
		Refuted:  "a memory snapshot that shows something else holding the memory",
		Remedies: []report.Remedy{{Action: action, CheckedBy: report.ByRule}},
	}
}

// passes tells whether the last traceback goes through a function or file with one of the words.
func (t *Text) passes(words ...string) bool {
	if len(t.Tracebacks) == 0 {
		return false
	}
	for _, f := range t.Tracebacks[len(t.Tracebacks)-1].Frames {
		for _, w := range words {
			if strings.Contains(f.Function, w) || strings.Contains(f.File, w) || strings.Contains(f.Code, w+"(") {
				return true
			}
		}
	}
	return false
}

func place(f oomtext.Frame) string {
	if f.Line == 0 {
		return f.File
	}
	return fmt.Sprintf("%s:%d %s", f.File, f.Line, f.Function)
}

// textFull is the rule of last resort: the card is full of this job's own tensors, or the message says too little.
func textFull(t *Text) (report.Finding, bool) {
	if t.Kind != oomtext.DeviceOOM {
		return report.Finding{}, false
	}
	f := report.Finding{
		ID: "activations-dominate", Severity: report.Error, Confidence: 0.35, Bytes: t.Allocated.Bytes,
		Title:    "the job needs more than the card has; the message does not say what for",
		Refuted:  "a smaller batch that fails in the same way: then it is the model, a leak or another process",
		Evidence: []string{"most often activations, which grow with the batch: a memory snapshot would show it (plimsoll run -- python train.py records one)"},
		Remedies: []report.Remedy{
			{Action: "halve the micro-batch, accumulate two: same training", CheckedBy: report.ByRule},
			{Action: "activation checkpointing, or 16-bit autocast", CheckedBy: report.ByRule},
		},
	}
	held, ok := t.held()
	limit := t.Capacity
	if t.Allowed.Known {
		limit = t.Allowed
	}
	if !ok || !limit.Known {
		return f, true
	}
	f.Confidence = 0.55
	f.Evidence = append([]string{fmt.Sprintf("PyTorch holds %s of the %s there are, %s of it in use", held, limit.Bytes, t.Allocated.Bytes)}, f.Evidence...)
	if unused, ok := t.unused(); ok && 20*unused < held+20*units.MiB {
		f.Evidence = append(f.Evidence, fmt.Sprintf("not fragmentation, although the message suggests it: only %s is held but unused", unused))
	}
	return f, true
}
