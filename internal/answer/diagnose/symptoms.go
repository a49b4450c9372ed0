package diagnose

import (
	"fmt"

	"github.com/plimsoll/plimsoll/internal/answer/finding"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/oomtext"
	"github.com/plimsoll/plimsoll/internal/units"
)

var symptomRules = []textRule{textExceptionHolds, textTests, textTraceback, textDataOnDevice, textCheckpointing, textModelName, textWeights, textProse, textFull}

// textExceptionHolds: attempt after attempt fails although the requests shrink, because the failed attempt is still held.
func textExceptionHolds(t *Text) (report.Finding, bool) {
	if !t.onDevice() || len(t.Earlier) == 0 || !t.Allocated.Known {
		return report.Finding{}, false
	}
	first := t.Earlier[0]
	shrinking := first.Requested.Known && t.Requested.Known && t.Requested.Bytes < first.Requested.Bytes
	kept := first.Allocated.Known && 20*t.Allocated.Bytes >= 19*first.Allocated.Bytes
	if !shrinking || !kept {
		return report.Finding{}, false
	}
	return report.Finding{
		ID: "exception-holds-tensors", Confidence: 0.9, Bytes: t.Allocated.Bytes,
		Title: "the caught error keeps the failed attempt alive, so every retry fails",
		Evidence: []string{
			fmt.Sprintf("the requests shrank from %s to %s, but %s stayed allocated (%s at the first failure)", first.Requested.Bytes, t.Requested.Bytes, t.Allocated.Bytes, first.Allocated.Bytes),
			"an exception's traceback keeps the frames it passed through alive, and their tensors with them, until the except block ends",
		},
	}, true
}

// textTests: tests of one process that ran before still hold memory.
func textTests(t *Text) (report.Finding, bool) {
	if !t.onDevice() || !t.Scene.Tests || !t.Allocated.Known || !t.Capacity.Known || 2*t.Allocated.Bytes < t.Capacity.Bytes {
		return report.Finding{}, false
	}
	return report.Finding{
		ID: "growth", Confidence: 0.78, Bytes: t.Allocated.Bytes,
		Title: fmt.Sprintf("%s is allocated inside a test run: earlier tests may still hold it", t.Allocated.Bytes),
		Evidence: []string{
			"tests of one process share the GPU, and fixtures, caches and the tracebacks of failed tests keep tensors alive",
		},
		Refuted: "the same failure when this test runs alone",
	}, true
}

// textDataOnDevice: a whole file or table was being read onto the device.
func textDataOnDevice(t *Text) (report.Finding, bool) {
	frame, ok := t.frameWith("read_csv", "read_parquet", "read_json", "from_pandas", "DataFrame", "dataframe.py", "cudf/")
	if !t.onDevice() || !ok {
		return report.Finding{}, false
	}
	return t.passes(clue{id: "dataset-on-gpu", confidence: 0.78, title: "a whole table was being put on the GPU",
		more: "reading needs the text, the columns and temporaries at once, several times the size of the file"}, frame), true
}

// textCheckpointing: the log warned that checkpointing does not do what it should.
func textCheckpointing(t *Text) (report.Finding, bool) {
	if !t.onDevice() || len(t.Hints) == 0 {
		return report.Finding{}, false
	}
	f := report.Finding{
		ID: "checkpointing-ineffective", Confidence: 0.62, Bytes: t.Requested.Bytes, Title: "gradient checkpointing may not take effect",
		Refuted: "a memory snapshot in which the layers' inner tensors are freed when the layer is done",
	}
	for _, h := range t.Hints {
		f.Evidence = append(f.Evidence, fmt.Sprintf("line %d warns: %s", h.Line, h.Text))
		if h.Kind == oomtext.HintNoInputGradient {
			f.Confidence = 0.78
			f.Evidence = append(f.Evidence, "a checkpointed layer without an input that needs a gradient is left out of backward: its parameters do not train")
			f.Remedies = append(f.Remedies, report.Remedy{Action: `gradient_checkpointing_kwargs={"use_reentrant": False}, or model.enable_input_require_grads() with adapters`, CheckedBy: report.ByRule})
		} else {
			f.Evidence = append(f.Evidence, "unless the model switches its cache off itself, keys and values of every layer stay in memory")
			f.Remedies = append(f.Remedies, report.Remedy{Action: "model.config.use_cache = False while training", CheckedBy: report.ByRule})
		}
	}
	return f, true
}

// textModelName: the name of the model tells how large its weights are, and they alone exceed the device.
func textModelName(t *Text) (report.Finding, bool) {
	limit, known := t.limit()
	if !t.onDevice() || !known || t.Scene.Billions == 0 || t.Scene.Quantised || t.Scene.Several || t.Rank > 0 || t.Device > 0 {
		return report.Finding{}, false
	}
	weights := units.Bytes(2e9 * t.Scene.Billions)
	if 100*weights < 93*limit || t.Allocated.Known && 2*t.Allocated.Bytes < limit {
		return report.Finding{}, false
	}
	title := "a model of %g billion parameters leaves no room on this GPU in 16 bits"
	if weights > limit {
		title = "a model of %g billion parameters does not fit on this GPU in 16 bits"
	}
	return report.Finding{
		ID: "model-load", Confidence: 0.8, Bytes: weights,
		Title: fmt.Sprintf(title, t.Scene.Billions),
		Evidence: []string{
			fmt.Sprintf("its weights alone take %s, 2 bytes per parameter; the GPU has %s", weights, limit),
			"the size is taken from a name in the text",
		},
		Refuted: "weights in 8 or 4 bits, or spread over several GPUs",
	}, true
}

// textWeights: outside training, a small request that fails on a full device says that what was there before fills it: the weights.
func textWeights(t *Text) (report.Finding, bool) {
	limit, known := t.limit()
	work := t.Asker().Work
	resident := work == finding.Inference || work == finding.Diffusion || t.Backend == "mps" && work != finding.Training
	if !t.onDevice() || !resident || !known || !t.Allocated.Known || !t.Requested.Known {
		return report.Finding{}, false
	}
	all := t.Allocated.Bytes + t.OtherAllocations.Bytes
	if 50*t.Requested.Bytes > limit || 10*all < 8*limit {
		return report.Finding{}, false
	}
	return report.Finding{
		ID: "model-too-large", Confidence: 0.62, Bytes: t.Allocated.Bytes,
		Title: "the model and what belongs to it fill the memory; the input hardly matters",
		Evidence: []string{
			fmt.Sprintf("%s of %s is allocated already, and a request of only %s failed", all, limit, t.Requested.Bytes),
			"nothing is trained here, so that is weights and caches, not gradients or optimizer state",
		},
		Refuted: "the same model working with a smaller input",
	}, true
}

// textFull is the rule of last resort: the device is full of this job's own tensors, or the message says too little.
func textFull(t *Text) (report.Finding, bool) {
	if !t.onDevice() {
		return report.Finding{}, false
	}
	f := report.Finding{ID: "activations-dominate", Confidence: 0.35, Bytes: t.Allocated.Bytes, Title: "the job needs more than the GPU has; the message does not say what for"}
	work := t.Asker().Work
	switch work {
	case finding.Training, "":
		f.Evidence = []string{"most often activations, which grow with the batch"}
	case finding.Serving:
		f.ID, f.Title = "kv-cache", "the model, its cache and the requests at work need more than the GPU has"
		f.Evidence = []string{"a server fills the GPU with its cache by design and needs room for the running requests as well"}
	case finding.Diffusion:
		f.Evidence = []string{"most often the activations of one image or frame, which grow with its size"}
	case finding.Data:
		f.ID = "unknown"
		f.Evidence = []string{"arrays and temporaries of the computation fill it"}
	default:
		f.Evidence = []string{"most often the activations of one input, which grow with its size and the batch"}
	}
	held, ok := t.held()
	limit, known := t.limit()
	if !ok || !known {
		f.Evidence = append(f.Evidence, more(t)...)
		return f, true
	}
	f.Confidence = 0.55
	f.Evidence = append([]string{fmt.Sprintf("%s of %s is held, %s of it in use", held, limit, t.Allocated.Bytes)}, f.Evidence...)
	if unused, ok := t.unused(); ok && 20*unused < held+20*units.MiB {
		f.Evidence = append(f.Evidence, notFragmentation(unused))
	}
	f.Evidence = append(f.Evidence, more(t)...)
	return f, true
}

// more says how to learn more, where plimsoll can.
func more(t *Text) []string {
	a := t.Asker()
	if a.Work != finding.Training && a.Work != "" || t.Backend != "cuda" || len(a.Stack) == 0 || a.Stack[0] != finding.PyTorch || a.OS == "windows" {
		return nil
	}
	return []string{"a memory snapshot would show it: plimsoll run -- python SCRIPT records one"}
}
