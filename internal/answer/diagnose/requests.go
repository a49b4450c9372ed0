package diagnose

import (
	"fmt"

	"github.com/plimsoll/plimsoll/internal/answer/finding"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/units"
)

var requestRules = []textRule{textAbsurd, textSecondCopy, textLargeTensor, textProgram, textFreeButFails, textFragmentation}

// textAbsurd: the request alone is larger than the GPU.
func textAbsurd(t *Text) (report.Finding, bool) {
	q := t.Requested
	if !t.onDevice() {
		return report.Finding{}, false
	}
	limit, known := t.limit()
	beyond := q.Known && (q.Bytes >= units.TiB || known && q.Bytes > limit)
	if !beyond && t.Format != "v22-1eb" && t.Format != "mps-buffer" || t.Purpose == "weights" {
		return report.Finding{}, false
	}
	f := report.Finding{ID: "absurd-request", Confidence: 0.9, Bytes: q.Bytes, Title: "one tensor larger than the whole GPU was requested"}
	switch {
	case t.Format == "v22-1eb":
		f.Confidence = 0.97
		f.Title = "more than an exabyte was requested: a size went wrong"
		f.Evidence = []string{"a negative or overflowed size; after a collective that failed or timed out, look at that failure first"}
	case known:
		f.Evidence = []string{fmt.Sprintf("%s in one piece on a device with %s: freeing memory cannot help", q.Bytes, limit)}
	default:
		f.Evidence = []string{fmt.Sprintf("%s in one piece", q.Bytes)}
	}
	return f, true
}

// textSecondCopy: a request as large as everything allocated, to the last percent, is a copy of it: a flat buffer, a cast, an average of the weights.
func textSecondCopy(t *Text) (report.Finding, bool) {
	q, all := t.Requested, t.Allocated
	if !t.onDevice() || !q.Known || !all.Known || q.Bytes < units.GiB || q.Bytes > all.Bytes+all.Within || 100*q.Bytes < 99*all.Bytes {
		return report.Finding{}, false
	}
	return report.Finding{
		ID: "model-copies", Confidence: 0.75, Bytes: q.Bytes,
		Title: fmt.Sprintf("the request is as large as everything allocated (%s): a second copy of the model", all.Bytes),
		Evidence: []string{
			fmt.Sprintf("%s was requested with %s allocated", q.Bytes, all.Bytes),
			"that is what a flat buffer of all parameters (DeepSpeed, FSDP), a cast of the whole model or a copy of it needs",
		},
	}, true
}

// textLargeTensor: the request alone is a good part of the GPU and at least half of all that is in use.
func textLargeTensor(t *Text) (report.Finding, bool) {
	q := t.Requested
	limit, known := t.limit()
	if !t.onDevice() || !q.Known || !known || q.Bytes > limit || 4*q.Bytes < limit || t.Purpose != "" {
		return report.Finding{}, false
	}
	if t.Allocated.Known && 2*q.Bytes < t.Allocated.Bytes {
		return report.Finding{}, false
	}
	f := report.Finding{
		ID: "one-large-tensor", Confidence: 0.7, Bytes: q.Bytes,
		Title:    fmt.Sprintf("one tensor of %s did not fit", q.Bytes),
		Evidence: []string{fmt.Sprintf("it is %d%% of %s", 100*q.Bytes/limit, limit)},
	}
	if t.Allocated.Bytes > 0 {
		f.Title = fmt.Sprintf("one tensor of %s did not fit beside %s in use", q.Bytes, t.Allocated.Bytes)
	}
	return f, true
}

// textProgram: XLA says what a whole program needs, and its largest buffers say what for.
func textProgram(t *Text) (report.Finding, bool) {
	if !t.onDevice() || !t.Program.Known {
		return report.Finding{}, false
	}
	total := fmt.Sprintf("the compiled program needs %s in all", t.Program.Bytes)
	if t.Capacity.Known {
		total = fmt.Sprintf("the compiled program needs %s in all, and the device has %s", t.Program.Bytes, t.Capacity.Bytes)
	}
	f := report.Finding{ID: "activations-dominate", Confidence: 0.6, Bytes: t.Program.Bytes, Title: "the program's buffers need more than the device has", Evidence: []string{total}}
	if len(t.Largest) == 0 {
		return f, true
	}
	first := t.Largest[0]
	f.Evidence = append(f.Evidence, fmt.Sprintf("its largest buffer takes %s, shape %v", first.Size.Bytes, first.Shape))
	switch {
	case first.Quadratic():
		f.ID, f.Confidence = "attention-quadratic", 0.85
		f.Title = "attention scores fill the device: they grow with the square of the sequence"
	case widest(first.Shape) >= vocabulary && len(first.Shape) > 1:
		f.ID, f.Confidence = "logits", 0.7
		f.Title = "the logits over the whole vocabulary fill the device"
	case t.Program.Known && 2*first.Size.Bytes > t.Program.Bytes:
		f.ID, f.Confidence = "one-large-tensor", 0.75
		f.Title = fmt.Sprintf("one buffer of %s is most of what the program needs", first.Size.Bytes)
	}
	return f, true
}

// vocabulary is the least number of words of a language model.
const vocabulary = 30_000

func widest(shape []int64) int64 {
	if len(shape) == 0 {
		return 0
	}
	return shape[len(shape)-1]
}

// textFreeButFails: less was requested than was free.
func textFreeButFails(t *Text) (report.Finding, bool) {
	if !t.onDevice() || !t.Requested.Known {
		return report.Finding{}, false
	}
	if t.Format == "xpu-block" {
		return report.Finding{
			ID: "free-but-fails", Confidence: 0.95, Bytes: t.Requested.Bytes,
			Title:    "this platform gives no single block above 4 GB, however much is free",
			Evidence: []string{"the driver refuses blocks of this size; memory is not the problem"},
		}, true
	}
	if _, wsl := textFallback(t); wsl || !t.roomToSpare() {
		return report.Finding{}, false
	}
	f := report.Finding{
		ID: "free-but-fails", Confidence: 0.75, Bytes: t.Requested.Bytes,
		Title:    fmt.Sprintf("%s was free and %s requested: the GPU's memory was not the limit", t.Free.Bytes, t.Requested.Bytes),
		Evidence: []string{"a smaller batch is the wrong first answer"},
	}
	if held, ok := t.held(); ok && t.Allowed.Known && held+t.Requested.Bytes > t.Allowed.Bytes {
		f.Confidence = 0.97
		f.Title = fmt.Sprintf("a limit of %s was set for this process, below the GPU's %s", t.Allowed.Bytes, t.Capacity.Bytes)
		f.Evidence = append(f.Evidence, fmt.Sprintf("PyTorch held %s and wanted %s more; %s was still free on the GPU", held, t.Requested.Bytes, t.Free.Bytes))
		f.Remedies = []report.Remedy{{
			Action: "raise the fraction: torch.cuda.set_per_process_memory_fraction(1.0), or per_process_memory_fraction in the allocator settings", CheckedBy: report.ByRule,
			AppliesTo: &report.Applies{Framework: []string{finding.PyTorch}, Backend: []string{"cuda", "hip"}},
		}}
	}
	return f, true
}

// textFragmentation: PyTorch itself held enough, in pieces.
func textFragmentation(t *Text) (report.Finding, bool) {
	unused, ok := t.unused()
	if !t.onDevice() || !ok || !t.Requested.Known || unused < t.Requested.Bytes {
		return report.Finding{}, false
	}
	if t.Capacity.Known && 20*unused < t.Capacity.Bytes {
		return report.Finding{}, false
	}
	return report.Finding{
		ID: "fragmentation", Confidence: 0.82, Bytes: unused,
		Title:    fmt.Sprintf("fragmentation: PyTorch held %s unused, but in pieces", unused),
		Evidence: []string{fmt.Sprintf("%s was requested while %s of what PyTorch holds was not in use", t.Requested.Bytes, unused)},
	}, true
}
