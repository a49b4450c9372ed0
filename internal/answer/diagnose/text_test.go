package diagnose_test

import (
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/explain"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/oomtext"
)

// full is PyTorch 2.2's message on a card filled by this process alone.
const full = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 768.00 MiB. GPU 0 has a total capacity of 16.00 GiB of which 500.00 MiB is free. " +
	"Including non-PyTorch memory, this process has 15.50 GiB memory in use. Of the allocated memory 15.00 GiB is allocated by PyTorch, and 62.00 MiB is reserved by PyTorch but unallocated.\n"

// trace writes a traceback as Python does. Each call is "file|line|function|source", the outermost first; "t:" is torch's folder.
func trace(calls ...string) string {
	var b strings.Builder
	b.WriteString("Traceback (most recent call last):\n")
	for _, c := range calls {
		part := strings.SplitN(c, "|", 4)
		file := strings.Replace(strings.Replace(part[0], "t:", inTorch, 1), "s:", inSite, 1)
		b.WriteString("  File \"" + file + "\", line " + part[1] + ", in " + part[2] + "\n    " + part[3] + "\n")
	}
	return b.String() + full
}

func read(t *testing.T, text string) *report.Explain {
	t.Helper()
	log, err := oomtext.Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return explain.Build([]explain.Evidence{{Name: "log", Messages: log.Messages, Hints: log.Hints}})
}

// messages are texts written to the formats of PyTorch and its libraries, and what each must be told.
func messages() []struct{ name, id, text string } {
	const main = "train.py|99|<module>|main()"
	message := func(request, free, others, process, allocated, unallocated string) string {
		return "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate " + request + ". GPU 0 has a total capacity of 79.10 GiB of which " + free + " is free. " + others +
			"Including non-PyTorch memory, this process has " + process + " memory in use. Of the allocated memory " + allocated + " is allocated by PyTorch, and " + unallocated + " is reserved by PyTorch but unallocated."
	}
	return []struct{ name, id, text string }{
		{"another job", "other-process", message("512.00 MiB", "300.00 MiB", "Process 4711 has 70.00 GiB memory in use. ", "8.80 GiB", "8.10 GiB", "200.00 MiB")},
		{"memory nobody names", "orphan-memory", message("512.00 MiB", "300.00 MiB", "", "18.80 GiB", "18.10 GiB", "200.00 MiB")},
		{"seven ranks with a context each", "rank0-contexts", message("512.00 MiB", "20.00 MiB", strings.Repeat("Process 4711 has 508.00 MiB memory in use. ", 7), "75.60 GiB", "74.90 GiB", "120.00 MiB")},
		{"a library beside PyTorch", "non-pytorch-memory", message("512.00 MiB", "300.00 MiB", "", "78.80 GiB", "38.10 GiB", "200.00 MiB")},
		{"held in pieces", "fragmentation", message("2.00 GiB", "300.00 MiB", "", "78.70 GiB", "61.10 GiB", "17.00 GiB")},
		{"more than the card", "absurd-request", message("640.00 GiB", "70.00 GiB", "", "8.80 GiB", "8.10 GiB", "200.00 MiB")},
		{"half the card at once", "one-large-tensor", message("40.00 GiB", "36.00 GiB", "", "42.80 GiB", "42.10 GiB", "200.00 MiB")},
		{"a server without room for its cache", "kv-cache", "ValueError: The model's max seq len (16384) is larger than the maximum number of tokens that can be stored in KV cache (9200). Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine."},
		{"arrays fill the GPU", "unknown", "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 2,097,152,000 bytes (allocated so far: 9,663,676,416 bytes)."},
		{"a shape gone wrong", "absurd-request", "RuntimeError: CUDA out of memory. Tried to allocate more than 1EB memory."},
		{"free, and refused", "free-but-fails", message("512.00 MiB", "60.00 GiB", "", "18.80 GiB", "18.10 GiB", "200.00 MiB")},
		{"WSL", "wsl-pinned-memory", message("512.00 MiB", "60.20 GiB", "", "17179869184.00 GiB", "18.10 GiB", "200.00 MiB")},
		{"Windows", "sysmem-fallback", "RuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB (GPU 0; 8.00 GiB total capacity; 12.00 GiB already allocated; 0 bytes free; 13.00 GiB reserved in total by PyTorch)"},
		{"graphs", "cuda-graph-pools", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. GPU 0 has a total capacity of 79.10 GiB of which 20.00 MiB is free. Including non-PyTorch memory, this process has 79.00 GiB memory in use. Of the allocated memory 78.20 GiB is allocated by PyTorch, with 9.00 GiB allocated in private pools (e.g., CUDA Graphs), and 100.00 MiB is reserved by PyTorch but unallocated."},
		{"the host", "host-oom", "RuntimeError: [enforce fail at alloc_cpu.cpp:75] . DefaultCPUAllocator: can't allocate memory: you tried to allocate 1234567890 bytes. Error code 12 (Cannot allocate memory)"},
		{"workers", "cuda-in-workers", "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method"},
		{"cuDNN", "library-oom", "RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED"},
		{"Triton", "not-an-oom", "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 200000, Hardware limit: 101376. Reducing block sizes or `num_stages` may help."},
		{"a finder that gave up", "model-too-large", "RuntimeError: No executable batch size found, reached zero."},

		{"loading", "model-load", trace("train.py|12|<module>|model = Net().cuda()", "t:nn/modules/module.py|1050|cuda|return self._apply(lambda t: t.cuda(device))", "t:nn/modules/module.py|942|_apply|param_applied = fn(param)")},
		{"resuming", "resume-doubles", trace(main, "train.py|64|resume|checkpoint = torch.load(path)", "t:serialization.py|1500|load|return _load(", "t:serialization.py|1400|restore_location|return default_restore_location(storage, str(map_location))", "t:serialization.py|430|_cuda_deserialize|return torch.UntypedStorage(obj.nbytes(), device=torch.device(location))")},
		{"saving", "checkpoint-save", trace(main, "train.py|90|save_checkpoint|torch.save(gather(model), path)", "train.py|92|gather|return {k: v.clone() for k, v in model.state_dict().items()}")},
		{"gathering", "fsdp-gather", trace(main, "train.py|90|save|state = model.state_dict()", "t:distributed/fsdp/_state_dict_utils.py|700|_pre_state_dict_hook|_unshard_fsdp_state_params(", "t:distributed/fsdp/_flat_param.py|1300|_alloc_padded_unsharded_flat_param|_alloc_storage(")},
		{"accumulating sharded", "accumulation-unsharded-grads", trace(main, "train.py|74|step|with model.no_sync():", "train.py|75|no_sync_step|loss.backward()", "t:_tensor.py|630|backward|torch.autograd.backward(", "t:autograd/__init__.py|344|backward|_engine_run_backward(")},
		{"the first step", "optimizer-state-first-step", trace(main, "train.py|76|main|optimizer.step()", "t:optim/optimizer.py|533|wrapper|out = func(*args, **kwargs)", "t:optim/adam.py|238|step|has_complex = self._init_group(", "t:optim/adam.py|178|_init_group|state[\"exp_avg\"] = torch.zeros_like(")},
		{"a later step", "optimizer-step-temporaries", trace(main, "train.py|76|main|optimizer.step()", "t:optim/adam.py|247|step|adam(", "t:optim/adam.py|768|_multi_tensor_adam|exp_avg_sq_sqrt = torch._foreach_sqrt(device_exp_avg_sqs)")},
		{"evaluation", "eval-graph-kept", trace(main, "train.py|83|evaluate|out = model(x)", "t:nn/modules/module.py|1790|_call_impl|return forward_call(*args, **kwargs)", "train.py|20|forward|return self.up(x)")},
		{"evaluation that joins its outputs", "eval-outputs-kept", trace(main, "s:transformers/trainer.py|4500|evaluation_loop|all_preds.add(logits)", "s:transformers/trainer_pt_utils.py|330|add|self.tensors = nested_concat(self.tensors, tensors)", "s:transformers/trainer_pt_utils.py|140|nested_concat|return torch_pad_and_concatenate(tensors, new_tensors)")},
		{"nn.DataParallel", "data-parallel", trace(main, "train.py|72|main|out = model(x)", "t:nn/parallel/data_parallel.py|186|forward|return self.gather(outputs, self.output_device)", "t:nn/parallel/scatter_gather.py|104|gather|return Gather.apply(target_device, dim, *outputs)")},
		{"a deep copy", "model-copies", trace(main, "train.py|61|main|ema = copy.deepcopy(model)", "/usr/lib/python3.11/copy.py|153|deepcopy|y = copier(memo)", "t:nn/parameter.py|68|__deepcopy__|self.data.clone(memory_format=torch.preserve_format)")},
		{"compiled", "compile", trace(main, "train.py|72|main|out = model(x)", "t:_inductor/cudagraph_trees.py|400|run|out = self.graph.replay()")},
		{"logits", "logits", trace(main, "train.py|72|main|loss = model(**batch).loss", "s:transformers/loss/loss_utils.py|36|fixed_cross_entropy|loss = nn.functional.cross_entropy(", "t:nn/functional.py|3462|cross_entropy|return torch._C._nn.cross_entropy_loss(")},
		{"attention", "attention-quadratic", trace(main, "train.py|72|main|out = model(x)", "s:transformers/models/llama/modeling_llama.py|190|eager_attention_forward|attn_weights = nn.functional.softmax(attn_weights, dim=-1)", "t:nn/functional.py|2133|softmax|ret = input.softmax(dim)")},
		{"checkpointing without gradients", "checkpointing-ineffective", "/venv/torch/utils/checkpoint.py:91: UserWarning: None of the inputs have requires_grad=True. Gradients will be None\n" + full},
		{"checkpointing with a cache", "checkpointing-ineffective", "[WARNING] `use_cache=True` is incompatible with gradient checkpointing. Setting `use_cache=False`...\n" + full},
		{"retries inside except", "exception-holds-tensors", full + strings.NewReplacer("768.00", "384.00", "500.00", "100.00").Replace(full)},
		{"simply full", "activations-dominate", full},
	}
}

func TestEveryCauseAMessageCanShowIsHeard(t *testing.T) {
	t.Parallel()
	for _, c := range messages() {
		r := read(t, c.text)
		if len(r.Findings) == 0 || r.Findings[0].ID != c.id {
			t.Errorf("%s: %s, want %s first", c.name, ids(r), c.id)
			continue
		}
		for _, f := range r.Findings {
			if f.Title == "" || len(f.Evidence) == 0 || f.Refuted == "" || len(f.Remedies) == 0 {
				t.Errorf("%s: %s lacks a title, evidence, refutation or remedy: %+v", c.name, f.ID, f)
			}
		}
	}
}

// Messages that look like a cause and are not.
func TestMessagesThatOnlyLookLikeACause(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, not, text string }{
		{"two jobs of different size", "rank0-contexts", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. GPU 0 has a total capacity of 79.10 GiB of which 20.00 MiB is free. Process 1 has 618.00 MiB memory in use. Process 2 has 9.30 GiB memory in use. Including non-PyTorch memory, this process has 69.00 GiB memory in use. Of the allocated memory 68.00 GiB is allocated by PyTorch, and 100.00 MiB is reserved by PyTorch but unallocated."},
		{"a full card", "fragmentation", full},
		{"a full card", "other-process", full},
		{"a full card", "non-pytorch-memory", full},
		{"a warning without a failure", "checkpointing-ineffective", "None of the inputs have requires_grad=True. Gradients will be None\nstep 100 loss 2.3\n"},
		{"a warning about main memory", "checkpointing-ineffective", "None of the inputs have requires_grad=True. Gradients will be None\nRuntimeError: DataLoader worker (pid 99) is killed by signal: Killed."},
		{"training inside a function called train_and_eval", "eval-graph-kept", trace("train.py|99|<module>|train_and_eval()", "train.py|72|train_and_eval|out = model(x)", "t:nn/modules/module.py|1790|_call_impl|return forward_call(*args, **kwargs)")},
	} {
		if r := read(t, c.text); strings.Contains(ids(r), c.not) {
			t.Errorf("%s: %s", c.name, ids(r))
		}
	}
}
