package diagnose

import (
	"fmt"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/finding"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/oomtext"
)

// clue is what a traceback through certain functions or files says.
type clue struct {
	id         string
	confidence float64
	phase      oomtext.Phase // it holds in this phase only; "" in any
	work       string        // it holds for this kind of work only; "" for any
	words      []string      // one of these is in a function, a file or a call; none: the phase alone decides
	title      string
	more       string // beyond the line the traceback passes
}

// clues in the order they are tried: what is more special first.
var clues = []clue{
	{"accumulation-unsharded-grads", 0.75, oomtext.PhaseBackward, "", []string{"no_sync"}, "whole gradients are kept between micro-batches",
		"under no_sync() sharded training keeps unsharded gradients until the last micro-batch"},
	{"fsdp-gather", 0.8, "", "", []string{"_unshard", "unshard(", "_all_gather", "full_tensor", "_full_optim_state", "_gather_state", "GatheredParameters", "consolidated_16bit", "_full_pre_state_dict", "_full_post_state_dict", "full_state_dict",
		"_unflat", "get_full_params", "_summon_full_params", "gather_for_state"}, "sharded parameters were being gathered whole",
		"a gathered layer, or a full state dict, needs the unsharded size on this GPU"},
	{"checkpoint-save", 0.72, "", "", []string{"save_checkpoint", "_save_checkpoint", "save_model", "torch.save", "save_pretrained", "state_dict", "_save_optimizer"}, "saving a checkpoint needed more memory than was left",
		"the weights were being collected for a checkpoint; the batch size does not matter"},
	{"data-parallel", 0.75, "", "", []string{"data_parallel.py"}, "nn.DataParallel fills the first GPU before the others",
		"it gathers every replica's outputs on device 0"},
	{"model-copies", 0.75, "", "", []string{"deepcopy"}, "a copy of the model did not fit beside it",
		"copy.deepcopy puts the copy on the same GPU"},
	{"resume-doubles", 0.75, "", finding.Training, []string{"load_checkpoint", "_load_optimizer", "_load_from_checkpoint", "resume_from_checkpoint", "restore_location", "_cuda_deserialize"}, "a checkpoint was loaded onto the GPU beside the model",
		"without map_location torch.load puts tensors back on the GPU they were saved from"},
	{"model-load", 0.85, oomtext.PhaseLoad, "", nil, "there was no room for the model itself",
		"a smaller batch, accumulation or checkpointing cannot help"},
	{"model-load", 0.8, "", "", []string{"load_model", "_load_pretrained_model", "load_state_dict", "create_weights", "load_weights", "_initialize_model", "set_module_tensor_to_device", "_load_state_dict_into_meta_model", "load_checkpoint_in_model", "dispatch_model", "load_diffusion_model", "load_checkpoint_guess_config"}, "there was no room for the model's weights",
		"nothing has been computed yet: batch size and input length do not matter"},
	{"optimizer-state-first-step", 0.85, oomtext.PhaseOptimizer, "", []string{"_init_group", "init_state", "zeros_like"}, "the optimizer's state did not fit",
		"Adam creates two moments of every parameter in the first step, 8 bytes per parameter, and keeps them; the batch size does not matter"},
	{"optimizer-step-temporaries", 0.75, oomtext.PhaseOptimizer, "", nil, "the optimizer's step ran out of memory",
		"Adam's state appears in the first step, and foreach needs a temporary as large as the parameters; the batch size does not matter"},
	{"eval-outputs-kept", 0.8, "", "", []string{"nested_concat", "pad_and_concatenate", "gather_for_metrics", "torch_pad_and_concatenate"}, "evaluation collects its outputs on the GPU",
		"concatenating the outputs of all batches needs them twice"},
	{"eval-outputs-kept", 0.75, oomtext.PhaseEval, finding.Training, []string{"torch.cat", "torch.stack"}, "evaluation collects its outputs on the GPU",
		"concatenating the outputs of all batches needs them twice"},
	{"logits", 0.76, "", "", []string{"cross_entropy", "lm_head", "nll_loss", "log_softmax", "logits"}, "the failing request was for logits over the whole vocabulary",
		"they take 4 bytes per token and vocabulary entry, and the loss holds several copies"},
	{"attention-quadratic", 0.76, "", "", []string{"scaled_dot_product_attention", "softmax", "baddbmm", "attn_weights", "attention_scores", "attention_probs", "get_attention_scores", "_attn_with_bias", "attn_mask", "attention_mask", "causal_mask", "_expand_mask"}, "the request came from attention, whose scores grow with the square of the sequence",
		"without a fused kernel every token is paired with every other"},
	{"eval-graph-kept", 0.62, oomtext.PhaseEval, finding.Training, nil, "evaluation ran out of memory, although it should need less than training",
		"training fitted, so look for a graph that is recorded or outputs that are kept; model.eval() does not switch autograd off"},
	{"compile", 0.65, "", "", []string{"cudagraph_trees", "_inductor/", "torchinductor"}, "the request came from torch.compile",
		"autotuning and graphs captured for every shape take memory of their own"},
	{"kv-cache", 0.7, "", "", []string{"cache_utils.py", "_update_cache", "kv_cache", "allocate_kv_cache", "_allocate_kv_cache_tensors", "init_memory_pool", "_create_buffers", "determine_num_available_blocks"}, "the failing request was for the KV cache",
		"it grows with every token of every sequence"},
	{"attention-quadratic", 0.6, "", "", []string{"attention"}, "the request came from attention, whose scores grow with the square of the sequence", ""},
}

// decoders are where a diffusion pipeline turns latents into an image, the largest activations of the whole run.
var decoders = []string{"vae_decode", "decode_first_stage", "autoencoder_kl", "vae.decode", "decode_latents", "VAEDecode", "tiled_decode", "vae.encode"}

// prose is what people and programs write around a message.
type prose struct {
	id    string
	words []string // in lower case
	title string
}

// hearsay in the order they are tried.
var hearsay = []prose{
	{"fsdp-gather", []string{"_state_dict_utils.py", "full_state_dict", "full state dict", "fsdp.py\", line", "failed to clone() tensor"}, "a full state dict of sharded parameters was being gathered"},
	{"checkpoint-save", []string{"saving model checkpoint", "saving checkpoint", "saving the model", "when saving", "while saving", "save_pretrained", "at the end of training"}, "a checkpoint was being saved"},
	{"resume-doubles", []string{"checkpoint is loaded", "resume_from_checkpoint", "after resuming", "when resuming", "resuming from", "loading the checkpoint", "loaded checkpoint", "after loading a checkpoint"}, "a checkpoint had just been loaded"},
	{"model-load", []string{"loading checkpoint shards", "loading model weights", "loading weights", "loading the model", "when loading", "while loading", "load_tensors"}, "the model was being loaded"},
	{"model-too-large", []string{"even with batch size 1", "even with batch_size=1", "even with a batch size of 1", "batch size is 1", "batch size of 1", "batch_size=1 ", "batch_size 1 ", "batch size: 1\n"}, "a batch of one did not fit either"},
	{"eval-graph-kept", []string{"valid (", "validating", "validation:", "during validation", "during evaluation", "evaluating", "eval:"}, "evaluation was running"},
}

// textProse: the text around the message says what the program was doing.
func textProse(t *Text) (report.Finding, bool) {
	if !t.onDevice() {
		return report.Finding{}, false
	}
	for _, p := range hearsay {
		for _, w := range p.words {
			if !strings.Contains(t.Near, w) || p.id == "eval-graph-kept" && t.Asker().Work != finding.Training {
				continue
			}
			return report.Finding{
				ID: p.id, Confidence: 0.62, Bytes: t.Requested.Bytes, Title: p.title,
				Evidence: []string{fmt.Sprintf("the text around the message says %q", strings.TrimSpace(w)), "this is a guess from the text around the message"},
			}, true
		}
	}
	return report.Finding{}, false
}

// textTraceback: what the program was doing says what the memory is for.
func textTraceback(t *Text) (report.Finding, bool) {
	if !t.onDevice() {
		return report.Finding{}, false
	}
	if frame, ok := t.frameWith(decoders...); ok {
		return t.passes(clue{id: "activations-dominate", confidence: 0.72, title: "decoding the whole image at once did not fit",
			more: "the decoder's activations grow with the size of the image; the model itself fitted"}, frame), true
	}
	phase, decided := t.Phase()
	work := t.Asker().Work
	for _, c := range clues {
		frame, passes := decided, len(c.words) == 0
		if !passes {
			frame, passes = t.frameWith(c.words...)
		}
		if !passes || c.phase != "" && c.phase != phase || c.work != "" && work != "" && c.work != work {
			continue
		}
		return t.passes(c, frame), true
	}
	return report.Finding{}, false
}

// passes makes the finding of a clue from the frame that gave it away.
func (t *Text) passes(c clue, frame oomtext.Frame) report.Finding {
	f := report.Finding{ID: c.id, Confidence: c.confidence, Title: c.title, Bytes: t.Requested.Bytes}
	if frame.File != "" {
		f.Evidence = append(f.Evidence, "the traceback passes "+place(frame))
	} else if frame.Code != "" {
		f.Evidence = append(f.Evidence, "the line above the error is: "+frame.Code)
	}
	if c.more != "" {
		f.Evidence = append(f.Evidence, c.more)
	}
	if unused, ok := t.unused(); ok && t.Advice != "" && 20*unused < t.Allocated.Bytes {
		f.Evidence = append(f.Evidence, notFragmentation(unused))
	}
	if frame.File != "" && !frame.Library() {
		f.Where = []report.Place{{File: frame.File, Line: frame.Line, Function: frame.Function}}
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
			inCode := strings.Contains(f.Code, w+"(") || i == len(frames)-1 && strings.Contains(f.Code, w+" ")
			if strings.Contains(f.Function, w) || strings.Contains(strings.ReplaceAll(f.File, `\`, "/"), w) || inCode {
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
