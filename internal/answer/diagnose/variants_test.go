package diagnose_test

// variants are the same sicknesses under other circumstances: recordings of releases without annotations, evaluation that dies in
// its first batch, frameworks around the loop.
func variants() []sickness {
	return []sickness{
		{"losses kept in a list, recorded before 2.5", "growth", "train.py", 72, 1500 * mib, 3 * gib, func() *program {
			p := on(16 * gib)
			p.load()
			for range 8 {
				x := p.batch(1)
				p.forward(1)
				p.graph = nil
				p.forward(1)
				p.zero()
				p.backward()
				p.step()
				p.drop(x)
			}
			p.notes = nil
			return p
		}},
		{"outputs kept under SGD, whose step asks for nothing", "growth", "train.py", 73, 200 * mib, 600 * mib, func() *program {
			p := on(16 * gib)
			p.load()
			for range 8 {
				x := p.batch(1)
				p.forward(1)
				p.get(64*mib, "train.py:73 main|train.py:99 <module>")
				p.zero()
				p.backward()
				p.drop(x)
			}
			p.notes = nil
			return p
		}},
		{"the second step, recorded before 2.5", "second-step", "train.py", 0, 1 * gib, 1 * gib, func() *program {
			p := on(3*gib + 200*mib)
			p.load()
			p.trainOn(4)
			p.trainOn(4)
			p.notes = nil
			return p
		}},
		{"the first batch of evaluation, without no_grad", "eval-graph-kept", "train.py", 83, 2 * gib, 4 * gib, func() *program {
			p := on(4 * gib)
			p.load()
			p.train(3)
			p.drop(p.grads...)
			p.get(64*mib, "train.py:82 evaluate|train.py:97 main|train.py:99 <module>")
			p.forwardAt(16, "train.py:83 evaluate|train.py:97 main|train.py:99 <module>")
			return p
		}},
		{"an evaluation batch that is too large", "eval-batch-too-large", "train.py", 83, 2 * gib, 4 * gib, func() *program {
			p := on(4 * gib)
			p.load()
			p.train(3)
			p.drop(p.grads...)
			const caller = "train.py:83 evaluate|train.py:97 main|train.py:99 <module>"
			p.get(2*gib, "t:nn/modules/conv.py:548 _conv_forward|call|train.py:20 forward|call|"+caller)
			p.get(2*gib, "t:nn/functional.py:1701 relu|train.py:21 forward|call|"+caller)
			return p
		}},
		{"an evaluation batch in a loop that no name tells", "eval-batch-too-large", "train.py", 88, 2 * gib, 4 * gib, func() *program {
			p := on(4 * gib)
			p.load()
			p.train(3)
			p.drop(p.grads...)
			const caller = "train.py:88 main|train.py:99 <module>"
			p.get(2*gib, "t:nn/modules/conv.py:548 _conv_forward|call|train.py:20 forward|call|"+caller)
			p.get(2*gib, "t:nn/functional.py:1701 relu|train.py:21 forward|call|"+caller)
			return p
		}},
		{"tokens generated one by one with the graph kept", "graph-kept-in-generation", "train.py", 86, 1 * gib, 4 * gib, func() *program {
			p := on(4 * gib)
			p.load()
			for range 60 {
				p.forwardAt(0.2, "train.py:86 generate|train.py:97 main|train.py:99 <module>")
				p.get(4*mib, "train.py:87 generate|train.py:97 main|train.py:99 <module>")
			}
			return p
		}},
		{"every pair of samples at once", "one-large-tensor", "train.py", 74, 2 * gib, 5 * gib, func() *program {
			p := on(6 * gib)
			p.load()
			p.train(3)
			p.batch(1)
			p.forward(1)
			p.get(2*gib, "train.py:74 main|train.py:99 <module>")
			p.get(2*gib, "train.py:74 main|train.py:99 <module>")
			return p
		}},
		{"memory that no stack, step or name tells of", "unknown", "", 0, 3 * gib, 4 * gib, func() *program {
			p := on(4 * gib)
			for range 30 {
				p.get(128*mib, "")
			}
			p.get(512*mib, "")
			return p
		}},
		{"a model copied every time it is the best", "model-copies", "train.py", 79, 1 * gib, 4 * gib, func() *program {
			p := on(6 * gib)
			p.load()
			for range 12 {
				p.train(3)
				for range p.layers {
					p.get(p.parameter, "t:_tensor.py:130 __deepcopy__|/usr/lib/python3.11/copy.py:153 deepcopy|t:nn/parameter.py:68 __deepcopy__|/usr/lib/python3.11/copy.py:153 deepcopy|train.py:79 main|train.py:99 <module>")
				}
			}
			return p
		}},
		{"models of earlier trials in a dict of results", "model-copies", "train.py", 60, 2 * gib, 6 * gib, func() *program {
			p := on(6 * gib)
			for range 8 {
				p.params, p.grads, p.state = nil, nil, nil
				p.load()
				p.train(3)
			}
			return p
		}},
		{"whole gradients under no_sync", "accumulation-unsharded-grads", "train.py", 0, 1 * gib, 4 * gib, func() *program {
			p := on(2*gib + 600*mib)
			p.parameter = 16 * mib // shards of an eighth
			p.load()
			for range 6 {
				x := p.batch(1)
				p.drop(p.get(128*mib, "t:distributed/fsdp/_fully_shard/_fsdp_collectives.py:200 foreach_all_gather|t:distributed/fsdp/_fully_shard/_fsdp_param_group.py:300 unshard|train.py:31 forward|call|train.py:72 main|train.py:99 <module>"))
				p.forward(1)
				shards := p.params
				p.params = nil
				for range p.layers {
					p.params = append(p.params, &tensor{size: 256 * mib})
				}
				p.backward()
				p.params = shards
				p.drop(x)
			}
			return p
		}},
		{"checkpointing beside a KV cache", "checkpointing-ineffective", "", 0, 1 * gib, 4 * gib, func() *program {
			p := on(3 * gib)
			p.load()
			p.batch(1)
			const layer = "|call|t:utils/checkpoint.py:496 checkpoint|s:transformers/modeling_layers.py:93 __call__|s:transformers/models/llama/modeling_llama.py:420 forward|call|train.py:72 main|train.py:99 <module>"
			for range 40 {
				p.get(16*mib, "t:nn/functional.py:1425 dropout|s:transformers/models/llama/modeling_llama.py:330 forward"+layer)
				p.get(64*mib, "t:nn/modules/linear.py:134 forward|call|s:transformers/models/llama/modeling_llama.py:240 forward"+layer)
				p.get(64*mib, "s:transformers/models/llama/modeling_llama.py:245 forward"+layer)
				p.drop(p.get(128*mib, "s:transformers/models/llama/modeling_llama.py:250 forward"+layer))
			}
			return p
		}},
		{"attention written by hand", "attention-quadratic", "net.py", 0, 2 * gib, 5 * gib, func() *program {
			p := on(5 * gib)
			p.load()
			p.batch(1)
			const caller = "|call|net.py:70 forward|call|train.py:72 main|train.py:99 <module>"
			for range 12 {
				p.get(32*mib, "t:nn/modules/linear.py:134 forward|call|net.py:50 forward"+caller)
				p.get(128*mib, "net.py:52 forward"+caller)
				p.get(128*mib, "t:nn/functional.py:2133 softmax|net.py:53 forward"+caller)
				p.get(128*mib, "t:nn/functional.py:1425 dropout|t:nn/modules/dropout.py:70 forward|call|net.py:54 forward"+caller)
			}
			return p
		}},
		{"one large tensor of samples on the card", "dataset-on-gpu", "train.py", 50, 2 * gib, 3 * gib, func() *program {
			p := on(6 * gib)
			p.get(2500*mib, "train.py:50 load_data|train.py:99 <module>")
			p.load()
			p.train(3)
			p.trainOn(5)
			return p
		}},
		{"clones made while saving", "checkpoint-save", "train.py", 92, 512 * mib, 1 * gib, func() *program {
			p := on(3*gib - 300*mib)
			p.load()
			p.train(3)
			for range p.layers * 2 {
				p.get(64*mib, "train.py:92 <dictcomp>|train.py:92 save_checkpoint|train.py:98 main|train.py:99 <module>")
			}
			return p
		}},
		{"outputs collected in a loop without a name", "eval-outputs-kept", "train.py", 87, 1 * gib, 5 * gib, func() *program {
			p := on(6 * gib)
			p.load()
			p.train(3)
			p.drop(p.grads...)
			for range 60 {
				x := p.get(4*mib, "train.py:85 main|train.py:99 <module>")
				p.inference(1, "train.py:86 main|train.py:99 <module>")
				p.get(128*mib, "train.py:87 main|train.py:99 <module>")
				p.drop(x)
			}
			return p
		}},
		{"a compiled model with too large a batch", "activations-dominate", "train.py", 72, 3 * gib, 4 * gib, func() *program {
			p := on(4 * gib)
			p.load()
			p.batch(1)
			for range 40 {
				p.get(96*mib, "/tmp/torchinductor_me/ab/cabc.py:300 call|t:_inductor/output_code.py:584 __call__|t:_functorch/_aot_autograd/runtime_wrappers.py:330 runtime_wrapper|t:_dynamo/eval_frame.py:838 compile_wrapper|call|train.py:72 main|train.py:99 <module>")
			}
			return p
		}},
		{"parameters and gradients larger than the card, with C++ frames", "model-too-large", "train.py", 75, 4 * gib, 4 * gib, func() *program {
			p := on(3 * gib)
			p.engine = "??:0 c10::cuda::CUDACachingAllocator::malloc|??:0 at::native::mm|??:0 torch::autograd::Engine::evaluate_function|??:0 torch::autograd::python::PythonEngine::thread_init"
			p.layers, p.parameter, p.activation = 16, 128*mib, 3*mib
			p.load()
			p.train(1)
			return p
		}},
		{"a hook that keeps outputs, under Trainer", "growth", "finetune.py", 88, 1 * gib, 3 * gib, func() *program {
			p := on(16 * gib)
			p.load()
			const trainer = "s:transformers/trainer.py:3700 training_step|s:transformers/trainer.py:2500 _inner_training_loop|s:transformers/trainer.py:2200 train|finetune.py:88 <module>"
			for range 10 {
				x := p.get(4*mib, "s:transformers/trainer.py:3600 _prepare_input|"+trainer)
				p.forwardAt(1, trainer)
				p.get(200*mib, "s:transformers/models/llama/modeling_llama.py:240 forward|call|s:transformers/models/llama/modeling_llama.py:480 forward|call|"+trainer)
				p.zero()
				p.backward()
				p.step()
				p.drop(x)
			}
			return p
		}},
		{"a card with a little too little", "activations-dominate", "train.py", 0, 500 * mib, 2 * gib, func() *program {
			p := on(3 * gib)
			p.load()
			p.train(3)
			for range 3 {
				p.forward(1)
			}
			return p
		}},
		{"momentum of SGD in the first step", "optimizer-state-first-step", "train.py", 76, 1 * gib, 1 * gib, func() *program {
			p := on(2*gib + 600*mib)
			p.parameter, p.activation = 128*mib, 3*mib
			p.load()
			p.batch(1)
			p.forward(1)
			p.backward()
			p.scope("Optimizer.step#SGD.step", func() {
				for _, w := range p.params {
					p.get(w.size, "t:optim/sgd.py:454 _multi_tensor_sgd|t:optim/sgd.py:340 sgd|t:optim/sgd.py:120 step|t:optim/optimizer.py:533 wrapper|train.py:76 main|train.py:99 <module>")
				}
			})
			return p
		}},
		{"a batch too large, in a notebook with Lightning", "activations-dominate", "train.py", 22, 3 * gib, 5 * gib, func() *program {
			p := on(5 * gib)
			p.load()
			p.forwardAt(20, "net.py:30 training_step|s:lightning/pytorch/loops/optimization/automatic.py:129 closure|t:optim/adam.py:226 step|s:lightning/pytorch/core/optimizer.py:154 step|/tmp/ipykernel_1/2.py:4 <module>")
			return p
		}},
	}
}
