package diagnose

import (
	"fmt"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/oomtext"
	"github.com/plimsoll/plimsoll/internal/units"
)

var symptomRules = []textRule{textExceptionHolds, textFreeButFails, textFragmentation, textTraceback, textCheckpointing, textFull}

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
	if _, wsl := textFallback(t); wsl || !t.roomToSpare() {
		return report.Finding{}, false
	}
	f := report.Finding{
		ID: "free-but-fails", Severity: report.Error, Confidence: 0.75, Bytes: t.Requested.Bytes,
		Title: fmt.Sprintf("%s were free and %s asked for: the card's memory was not the limit", t.Free.Bytes, t.Requested.Bytes),
		Evidence: []string{
			"a smaller batch is the wrong first answer",
		},
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
		Remedies: []report.Remedy{
			{Action: "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (PyTorch 2.1+), alone", Saves: unused, CheckedBy: report.ByRule, Command: "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"},
			{Action: "fewer different shapes: pad or bucket the lengths", CheckedBy: report.ByRule},
		},
	}
	return f, true
}

// clue is what a traceback through certain functions or files says.
type clue struct {
	id         string
	confidence float64
	phase      oomtext.Phase // it holds in this phase only; "" in any
	words      []string      // one of these is in a function, a file or a call; none: the phase alone decides
	title      string
	more       string // beyond the line the traceback passes
	actions    []string
}

// clues in the order they are tried: what is more special first.
func clues() []clue {
	return []clue{
		{"accumulation-unsharded-grads", 0.75, oomtext.PhaseBackward, []string{"no_sync"}, "whole gradients are kept between micro-batches",
			"under no_sync() sharded training keeps unsharded gradients until the last micro-batch", []string{"synchronise every micro-batch: leave no_sync() out (Accelerate: sync_each_batch=True)"}},
		{"fsdp-gather", 0.78, "", []string{"_unshard", "unshard(", "_all_gather", "full_tensor", "_full_optim_state", "_gather_state", "GatheredParameters", "consolidated_16bit"}, "sharded parameters were being gathered whole",
			"a gathered layer, or a full state dict, needs the unsharded size on this card", []string{"save sharded (SHARDED_STATE_DICT), or gather with cpu_offload=True on rank 0 only", "wrap every block on its own, with reshard_after_forward=True"}},
		{"checkpoint-save", 0.7, "", []string{"save_checkpoint", "_save_checkpoint", "save_model", "torch.save"}, "saving a checkpoint needed more",
			"", []string{"save sharded or offloaded to the CPU; call torch.cuda.empty_cache() once before"}},
		{"data-parallel", 0.75, "", []string{"data_parallel.py"}, "nn.DataParallel fills the first card before the others",
			"it gathers every replica's outputs on device 0", []string{"DistributedDataParallel, one process a card: torchrun --nproc-per-node=N train.py"}},
		{"model-copies", 0.75, "", []string{"deepcopy"}, "a copy of the model did not fit beside it",
			"copy.deepcopy puts the copy on the same card", []string{"copy on the CPU: {k: v.cpu() for k, v in model.state_dict().items()}", "copy before the model is moved to the card"}},
		{"resume-doubles", 0.75, "", []string{"load_checkpoint", "_load_optimizer", "_load_from_checkpoint", "resume_from_checkpoint", "restore_location", "_cuda_deserialize"}, "a checkpoint was loaded onto the card beside the model",
			"without map_location torch.load puts tensors back on the card they were saved from", []string{`torch.load(path, map_location="cpu"), del checkpoint after load_state_dict`}},
		{"model-load", 0.85, oomtext.PhaseLoad, nil, "there was no room for the model itself",
			"a smaller batch, accumulation or checkpointing cannot help", []string{"load in 16 bits or quantised: from_pretrained(…, dtype=torch.bfloat16)", "shard over several cards: FSDP2, ZeRO-3, device_map"}},
		{"optimizer-state-first-step", 0.85, oomtext.PhaseOptimizer, []string{"_init_group", "init_state", "zeros_like"}, "the optimizer's state did not fit",
			"Adam creates two moments of every parameter in the first step, 8 bytes a parameter, and keeps them; the batch has no part in it", []string{"8-bit Adam, Adafactor or SGD", "ZeRO or FSDP shards it"}},
		{"optimizer-step-temporaries", 0.75, oomtext.PhaseOptimizer, nil, "the optimizer's step did not fit",
			"Adam's state appears in the first step, and foreach needs a temporary as large as the parameters; the batch has no part in it", []string{"fused=True (no temporaries, faster) or foreach=False in the optimizer", "8-bit Adam"}},
		{"eval-outputs-kept", 0.75, oomtext.PhaseEval, []string{"nested_concat", "pad_and_concatenate", "gather_for_metrics", "torch.cat", "torch.stack"}, "evaluation collects its outputs on the card",
			"joining the outputs of all batches needs them twice", []string{"collect on the CPU: out.detach().cpu(); with Trainer: eval_accumulation_steps=8, preprocess_logits_for_metrics"}},
		{"eval-graph-kept", 0.6, oomtext.PhaseEval, nil, "evaluation did not fit, where nothing needs a graph",
			"training fitted, so look for a graph that is recorded or outputs that are kept; model.eval() does not switch autograd off", []string{"torch.inference_mode() around evaluation", "outputs collected on the CPU; a smaller evaluation batch"}},
		{"compile", 0.65, "", []string{"cudagraph_trees", "_inductor/", "torchinductor"}, "the request came from torch.compile",
			"autotuning and graphs captured for every shape take memory of their own", []string{`torch.compile(mode="default", dynamic=True)`}},
		{"logits", 0.7, "", []string{"cross_entropy", "lm_head", "nll_loss"}, "the logits over the whole vocabulary were next",
			"the loss holds the logits, their log-probabilities and their gradient: 12 to 16 bytes for every token and word", []string{"fused or chunked cross-entropy (Liger kernel)", "shorter sequences"}},
		{"attention-quadratic", 0.6, "", []string{"softmax", "attention"}, "attention asked for it: scores grow with the square of the sequence",
			"", []string{`attn_implementation="sdpa" or FlashAttention`, "shorter sequences"}},
	}
}

// textTraceback: what the program was doing says what the memory is for.
func textTraceback(t *Text) (report.Finding, bool) {
	if t.Kind != oomtext.DeviceOOM {
		return report.Finding{}, false
	}
	phase, decided := t.Phase()
	for _, c := range clues() {
		frame, passes := decided, len(c.words) == 0
		if !passes {
			frame, passes = t.frameWith(c.words...)
		}
		if !passes || c.phase != "" && c.phase != phase {
			continue
		}
		f := t.symptom(c.id, c.confidence, c.title, "the traceback passes "+place(frame), c.actions...)
		if c.more != "" {
			f.Evidence = append(f.Evidence, c.more)
		}
		if unused, ok := t.unused(); ok && t.Advice != "" && 20*unused < t.Allocated.Bytes {
			f.Evidence = append(f.Evidence, notFragmentation(unused))
		}
		if frame.File != "" && !frame.Library() {
			f.Where = []report.Place{{File: frame.File, Line: frame.Line, Function: frame.Function}}
		}
		return f, true
	}
	return report.Finding{}, false
}

// textCheckpointing: the log warned that checkpointing does not do what it should.
func textCheckpointing(t *Text) (report.Finding, bool) {
	if t.Kind != oomtext.DeviceOOM || len(t.Hints) == 0 {
		return report.Finding{}, false
	}
	f := t.symptom("checkpointing-ineffective", 0.62, "gradient checkpointing may not take effect", "")
	f.Evidence = nil
	for _, h := range t.Hints {
		f.Evidence = append(f.Evidence, fmt.Sprintf("line %d warns: %s", h.Line, h.Text))
		if h.Kind == oomtext.HintNoInputGradient {
			f.Confidence = 0.78
			f.Evidence = append(f.Evidence, "a checkpointed layer without an input that needs a gradient is cut out of backward: nothing behind it trains")
			f.Remedies = append(f.Remedies, report.Remedy{Action: `gradient_checkpointing_kwargs={"use_reentrant": False}, or model.enable_input_require_grads() with adapters`, CheckedBy: report.ByRule})
		} else {
			f.Evidence = append(f.Evidence, "where the model does not switch the cache off itself, keys and values of every layer stay")
			f.Remedies = append(f.Remedies, report.Remedy{Action: "model.config.use_cache = False while training", CheckedBy: report.ByRule})
		}
	}
	return f, true
}

func (t *Text) symptom(id string, confidence float64, title, evidence string, actions ...string) report.Finding {
	f := report.Finding{
		ID: id, Severity: report.Error, Confidence: confidence, Title: title, Evidence: []string{evidence}, Bytes: t.Requested.Bytes,
	}
	for _, a := range actions {
		f.Remedies = append(f.Remedies, report.Remedy{Action: a, CheckedBy: report.ByRule})
	}
	return f
}

// frameWith finds the innermost call of the last traceback with one of the words in its function, file or source.
func (t *Text) frameWith(words ...string) (oomtext.Frame, bool) {
	if len(t.Tracebacks) == 0 {
		return oomtext.Frame{}, false
	}
	frames := t.Tracebacks[len(t.Tracebacks)-1].Frames
	for i := len(frames) - 1; i >= 0; i-- {
		f := frames[i]
		for _, w := range words {
			if strings.Contains(f.Function, w) || strings.Contains(strings.ReplaceAll(f.File, `\`, "/"), w) || strings.Contains(f.Code, w+"(") {
				return f, true
			}
		}
	}
	return oomtext.Frame{}, false
}

// place names a frame in a sentence: a library's file from its package on, where it is known without the folders before.
func place(f oomtext.Frame) string {
	file := strings.ReplaceAll(f.File, `\`, "/")
	if _, rest, ok := strings.Cut(file, "-packages/"); ok {
		file = rest
	}
	if parts := strings.Split(file, "/"); len(parts) > 4 {
		file = "…/" + strings.Join(parts[len(parts)-3:], "/")
	}
	if f.Line == 0 {
		return file
	}
	return fmt.Sprintf("%s:%d (%s)", file, f.Line, f.Function)
}

// textFull is the rule of last resort: the card is full of this job's own tensors, or the message says too little.
func textFull(t *Text) (report.Finding, bool) {
	if t.Kind != oomtext.DeviceOOM {
		return report.Finding{}, false
	}
	f := report.Finding{
		ID: "activations-dominate", Severity: report.Error, Confidence: 0.35, Bytes: t.Allocated.Bytes,
		Title:    "the job needs more than the card has; the message does not say what for",
		Evidence: []string{"most often activations, which grow with the batch: a memory snapshot would show it (plimsoll run -- python train.py records one)"},
		Remedies: []report.Remedy{
			{Action: halve, CheckedBy: report.ByRule},
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
		f.Evidence = append(f.Evidence, notFragmentation(unused))
	}
	return f, true
}
