package diagnose_test

import (
	"slices"

	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/units"
)

// sickness is a program with something wrong, and what must be said about it first.
type sickness struct {
	name, id string
	file     string // end of the file name of the first place, "" where none can be named
	line     int
	low      units.Bytes // what the finding must amount to
	high     units.Bytes
	run      func() *program
}

const (
	mib = units.MiB
	gib = units.GiB
)

func sicknesses() []sickness {
	all := append(trainingSicknesses(), loadingSicknesses()...)
	return append(append(all, libraryDetails()...), variants()...)
}

func trainingSicknesses() []sickness {
	return []sickness{
		{"a batch too large for the card", "activations-dominate", "train.py", 22, 3 * gib, 5 * gib, func() *program {
			p := on(5 * gib)
			p.load()
			p.trainOn(20)
			return p
		}},
		{"losses kept in a list", "growth", "train.py", 72, 1500 * mib, 2 * gib, func() *program {
			p := on(16 * gib)
			p.load()
			for range 6 {
				x := p.batch(1)
				p.forward(1)
				p.graph = nil // the list holds the graph
				p.forward(1)
				p.zero()
				p.backward()
				p.step()
				p.drop(x)
			}
			return p
		}},
		{"outputs of training kept on the card", "growth", "train.py", 73, 150 * mib, 600 * mib, func() *program {
			p := on(16 * gib)
			p.load()
			for range 8 {
				p.trainOn(1)
				p.get(64*mib, "train.py:73 main|train.py:99 <module>")
			}
			return p
		}},
		{"evaluation without no_grad", "eval-graph-kept", "train.py", 83, 2 * gib, 4 * gib, func() *program {
			p := on(6 * gib)
			p.load()
			p.train(2)
			p.drop(p.grads...)
			for range 40 {
				p.get(4*mib, "train.py:82 evaluate|train.py:97 main")
				p.forwardAt(1, "train.py:83 evaluate|train.py:97 main|train.py:99 <module>")
				p.get(4, "train.py:84 evaluate|train.py:97 main")
			}
			return p
		}},
		{"evaluation that collects its outputs", "eval-outputs-kept", "train.py", 84, 1 * gib, 5 * gib, func() *program {
			p := on(6 * gib)
			p.load()
			p.train(2)
			p.drop(p.grads...)
			for range 60 {
				x := p.get(4*mib, "train.py:82 evaluate|train.py:97 main")
				p.inference(1, "train.py:83 evaluate|train.py:97 main|train.py:99 <module>")
				p.get(128*mib, "t:nn/functional.py:2567 softmax|train.py:84 evaluate|train.py:97 main")
				p.drop(x)
			}
			return p
		}},
		{"a finder that doubles the batch until it fails", "exception-holds-tensors", "", 0, 1 * gib, 3 * gib, func() *program {
			p := on(3 * gib)
			p.load()
			for _, scale := range []float64{1, 2, 4, 8} {
				p.batch(scale)
				p.forward(scale)
				p.backward()
			}
			return p
		}},
		{"a retry inside except while the failed attempt is held", "exception-holds-tensors", "train.py", 22, 960 * mib, 960 * mib, func() *program {
			p := on(3 * gib)
			p.load()
			p.train(2)
			for _, scale := range []float64{12, 6, 3} { // nothing of a failed attempt is given up before the next
				p.caught()
				p.forward(scale)
			}
			return p
		}},
		{"Adam's state in the first step", "optimizer-state-first-step", "train.py", 76, 1440 * mib, 1440 * mib, func() *program {
			p := on(2*gib + 300*mib)
			p.parameter, p.activation = 90*mib, 12*mib
			p.load()
			p.train(1)
			return p
		}},
		{"the temporary of a foreach step", "optimizer-step-temporaries", "train.py", 76, 1 * gib, 2 * gib, func() *program {
			p := on(5 * gib)
			p.parameter, p.activation = 128*mib, 12*mib
			p.load()
			p.train(1)
			return p
		}},
		{"the second step", "second-step", "train.py", 0, 1 * gib, 1 * gib, func() *program {
			p := on(3*gib + 200*mib)
			p.load()
			p.trainOn(4)
			p.trainOn(4)
			return p
		}},
		{"one long batch", "input-spike", "train.py", 70, 0, 4 * gib, func() *program {
			p := on(4 * gib)
			p.load()
			p.train(3)
			p.trainOn(6)
			return p
		}},
		{"a shape gone wrong", "absurd-request", "train.py", 73, 10 * gib, 2000 * gib, func() *program {
			p := on(16 * gib)
			p.load()
			p.train(2)
			p.batch(1)
			p.forward(1)
			p.get(1000*gib, "train.py:73 main|train.py:99 <module>")
			return p
		}},
		{"one tensor larger than the card", "absurd-request", "train.py", 73, 10 * gib, 2000 * gib, func() *program {
			p := on(16 * gib)
			p.load()
			p.train(2)
			p.batch(1)
			p.forward(1)
			p.get(60*gib, "t:nn/functional.py:2567 mse_loss|train.py:73 main|train.py:99 <module>")
			return p
		}},
	}
}

func loadingSicknesses() []sickness {
	return []sickness{
		{"a model larger than the card", "model-load", "train.py", 60, 3 * gib, 4 * gib, func() *program {
			p := on(4 * gib)
			p.layers, p.parameter = 40, 128*mib
			p.load()
			return p
		}},
		{"parameters, gradients and state larger than the card", "model-too-large", "train.py", 75, 4 * gib, 4 * gib, func() *program {
			p := on(3 * gib)
			p.layers, p.parameter, p.activation = 16, 128*mib, 3*mib
			p.load()
			p.train(1)
			return p
		}},
		{"a checkpoint saved from the card", "checkpoint-save", "train.py", 90, 300 * mib, 2 * gib, func() *program {
			p := on(3 * gib)
			p.load()
			p.train(3)
			for range 80 {
				p.get(64*mib, "t:nn/modules/module.py:2200 state_dict|train.py:90 save|train.py:99 <module>")
			}
			return p
		}},
		{"a checkpoint that stays beside the model", "resume-doubles", "train.py", 64, 1 * gib, 2 * gib, func() *program {
			p := on(4 * gib)
			p.load()
			for range 24 {
				p.get(64*mib, "t:storage.py:300 _deserialize|t:serialization.py:1400 restore_location|t:serialization.py:1450 persistent_load|t:serialization.py:1500 load|train.py:64 resume|train.py:99 <module>")
			}
			p.train(2)
			return p
		}},
		{"a deep copy of the model", "model-copies", "train.py", 61, 512 * mib, 512 * mib, func() *program {
			p := on(3 * gib)
			p.load()
			for range p.layers {
				p.get(p.parameter, "t:_tensor.py:130 __deepcopy__|/usr/lib/python3.11/copy.py:153 deepcopy|t:nn/parameter.py:68 __deepcopy__|/usr/lib/python3.11/copy.py:153 deepcopy|train.py:61 main|train.py:99 <module>")
			}
			p.trainOn(3)
			p.trainOn(3)
			return p
		}},
		{"the whole data set on the card", "dataset-on-gpu", "train.py", 50, 2 * gib, 3 * gib, func() *program {
			p := on(4 * gib)
			for range 600 {
				p.get(4*mib, "train.py:50 <listcomp>|train.py:50 load_data|train.py:99 <module>")
			}
			p.load()
			p.train(3)
			return p
		}},
		{"float64 by accident", "precision-too-high", "train.py", 60, 500 * mib, 4 * gib, func() *program {
			p := on(16 * gib)
			p.load()
			for range 3 {
				x := p.batch(1)
				p.forward(1)
				p.zero()
				p.drop(p.get(8, "t:autograd/__init__.py:222 _make_grads|t:autograd/__init__.py:344 backward|t:_tensor.py:630 backward|train.py:75 main|train.py:99 <module>"))
				p.backward()
				p.step()
				p.drop(x)
			}
			return p
		}},
	}
}

func libraryDetails() []sickness {
	const attention = "|s:transformers/models/llama/modeling_llama.py:190 eager_attention_forward|s:transformers/models/llama/modeling_llama.py:240 forward|call|s:transformers/models/llama/modeling_llama.py:480 forward|call|train.py:72 main|train.py:99 <module>"
	const loss = "|s:transformers/loss/loss_utils.py:36 fixed_cross_entropy|s:transformers/loss/loss_utils.py:64 ForCausalLMLoss|s:transformers/models/llama/modeling_llama.py:480 forward|call|train.py:72 main|train.py:99 <module>"
	return []sickness{
		{"attention scores", "attention-quadratic", "train.py", 72, 3 * gib, 5 * gib, func() *program {
			p := on(5 * gib)
			p.load()
			p.batch(1)
			for range 12 {
				p.get(256*mib, "t:nn/functional.py:2133 softmax"+attention)
				p.get(128*mib, "t:nn/functional.py:1425 dropout"+attention)
				p.get(8*mib, "t:nn/modules/linear.py:134 forward|call"+attention)
			}
			return p
		}},
		{"logits over a large vocabulary", "logits", "train.py", 72, 2 * gib, 5 * gib, func() *program {
			p := on(4 * gib)
			p.load()
			p.batch(1)
			p.forward(1)
			for range 4 {
				p.get(1*gib, "t:nn/functional.py:3462 cross_entropy"+loss)
			}
			return p
		}},
		{"parameters gathered for a full state dict", "fsdp-gather", "train.py", 90, 1 * gib, 3 * gib, func() *program {
			p := on(3 * gib)
			p.load()
			p.train(2)
			for range 20 {
				p.get(256*mib, "t:distributed/fsdp/_flat_param.py:1300 _alloc_padded_unsharded_flat_param|t:distributed/fsdp/_flat_param.py:1250 unshard|t:distributed/fsdp/_unshard_param_utils.py:190 _unshard_fsdp_state_params|train.py:90 save|train.py:99 <module>")
			}
			return p
		}},
		{"DistributedDataParallel's buckets", "ddp-buckets", "train.py", 61, 512 * mib, 512 * mib, func() *program {
			p := on(16 * gib)
			p.load()
			p.get(512*mib, "t:nn/parallel/distributed.py:1210 _ddp_init_helper|t:nn/parallel/distributed.py:830 __init__|train.py:61 main|train.py:99 <module>")
			p.train(3)
			return p
		}},
		{"nn.DataParallel", "data-parallel", "train.py", 72, 500 * mib, 3 * gib, func() *program {
			p := on(3 * gib)
			p.load()
			p.train(2)
			p.batch(1)
			for range 20 {
				p.get(256*mib, "t:nn/parallel/comm.py:230 gather|t:nn/parallel/_functions.py:75 forward|t:nn/parallel/scatter_gather.py:104 gather|t:nn/parallel/data_parallel.py:180 gather|t:nn/parallel/data_parallel.py:186 forward|call|train.py:72 main|train.py:99 <module>")
			}
			return p
		}},
		{"compiled for one shape after the other", "compile", "train.py", 72, 64 * mib, 64 * mib, func() *program {
			p := on(3 * gib)
			p.load()
			p.train(2)
			p.batch(1)
			for range 40 {
				p.get(64*mib, "t:_inductor/runtime/triton_heuristics.py:800 benchmark_all_configs|t:_inductor/runtime/triton_heuristics.py:860 autotune_to_one_config|/tmp/torchinductor_me/ab/cabc.py:300 call|t:_functorch/_aot_autograd/runtime_wrappers.py:330 runtime_wrapper|t:_dynamo/eval_frame.py:838 compile_wrapper|call|train.py:72 main|train.py:99 <module>")
			}
			return p
		}},
		{"graphs captured for many shapes", "cuda-graph-pools", "train.py", 72, 2 * gib, 4 * gib, func() *program {
			p := on(4 * gib)
			p.load()
			for range 10 {
				p.drop(p.take(256*mib, "t:cuda/graphs.py:120 capture_begin|train.py:72 main|train.py:99 <module>", 0, 1))
				p.take(256*mib, "t:nn/modules/linear.py:134 forward|call|train.py:72 main|train.py:99 <module>", 0, 1)
			}
			p.train(3)
			return p
		}},
		{"memory that waits for a side stream", "stream-held", "train.py", 71, 1 * gib, 2 * gib, func() *program {
			p := on(16 * gib)
			p.load()
			p.train(3)
			for range 20 {
				p.hand(p.take(64*mib, "train.py:71 prefetch|train.py:99 <module>", 0, 0))
			}
			return p
		}},
		{"a convolution's workspace", "cudnn-workspace", "train.py", 20, 600 * mib, 800 * mib, func() *program {
			p := on(3 * gib)
			p.load()
			const conv = "t:nn/modules/conv.py:548 _conv_forward|t:nn/modules/conv.py:553 forward|call|train.py:20 forward|call|train.py:72 main|train.py:99 <module>"
			for step := range 3 {
				x := p.batch(1)
				a := p.get(64*mib, conv)
				p.forward(1)
				if step == 2 {
					p.get(700*mib, conv)
				}
				p.zero()
				p.backward()
				p.step()
				p.drop(x, a)
			}
			return p
		}},
		{"settings that work against each other", "alloc-conf-conflict", "", 0, 0, 0, func() *program {
			p := under(16*gib, alloc.Conf{Expandable: true, MaxSplit: 128 * mib})
			p.conf["PYTORCH_CUDA_ALLOC_CONF"], p.conf["max_split_size"] = "expandable_segments:True,max_split_size_mb:128", 128*mib
			p.load()
			p.train(3)
			return p
		}},
		{"memory in pieces", "fragmentation", "", 0, 500 * mib, 3 * gib, func() *program {
			p := on(4 * gib)
			for range 3 { // weights are staged in 32 bits, converted, and the copies freed
				staged := p.get(1000*mib, "train.py:55 load_weights|train.py:99 <module>")
				p.drop(staged)
				p.get(600*mib, "t:nn/modules/module.py:1355 convert|t:nn/modules/module.py:942 _apply|t:nn/modules/module.py:1373 to|train.py:56 load_weights|train.py:99 <module>")
			}
			p.get(1200*mib, "t:nn/modules/linear.py:134 forward|call|train.py:20 forward|call|train.py:72 main|train.py:99 <module>")
			return p
		}},
		{"results of the step before", "outputs-held", "train.py", 73, 400 * mib, 600 * mib, func() *program {
			p := on(16 * gib)
			p.load()
			var outputs *tensor
			for range 4 {
				x := p.batch(1)
				p.forward(1)
				fresh := p.get(400*mib, "t:nn/functional.py:3462 log_softmax|train.py:73 main|train.py:99 <module>")
				p.drop(outputs)
				outputs = fresh
				p.zero()
				p.backward()
				p.step()
				p.drop(x)
			}
			return p
		}},
		{"a backbone that was not frozen", "unused-gradients", "train.py", 58, 384 * mib, 384 * mib, func() *program {
			p := on(16 * gib)
			p.load()
			trained, all := p.params, p.backbone()
			for range 4 {
				p.trainPart(all, trained)
			}
			return p
		}},
		{"a backbone that was frozen after two steps", "frozen-state", "train.py", 58, 768 * mib, 768 * mib, func() *program {
			p := on(16 * gib)
			p.load()
			trained, all := p.params, p.backbone()
			for range 2 {
				p.trainPart(all, all)
			}
			for range 3 {
				p.trainPart(trained, trained)
			}
			return p
		}},
	}
}

// backbone puts four more layers on the card, in line 58, and lists all parameters.
func (p *program) backbone() []*tensor {
	all := slices.Clone(p.params)
	for range 4 {
		all = append(all, p.get(96*mib, "t:nn/modules/module.py:1355 convert|t:nn/modules/module.py:942 _apply|t:nn/modules/module.py:1373 to|train.py:58 main|train.py:99 <module>"))
	}
	return all
}

// trainPart runs a step in which some parameters get gradients and the optimizer updates some.
func (p *program) trainPart(gradients, updated []*tensor) {
	x := p.batch(1)
	p.forward(1)
	p.zero()
	p.params = gradients
	p.backward()
	p.params = updated
	p.step()
	p.drop(x)
}

// inference runs the model without a graph: a layer's tensors go when the next has been computed.
func (p *program) inference(scale float64, caller string) {
	var before *tensor
	for range p.layers {
		after := p.get(units.Bytes(scale*float64(p.activation/3)), "t:nn/modules/linear.py:134 forward|call|train.py:20 forward|call|train.py:31 forward|call|"+caller)
		p.drop(before)
		before = after
	}
	p.drop(before)
}
