package diagnose_test

// closeCalls are programs that come as near to a finding as one can without having its cause.
func closeCalls() []wellness {
	const main = "train.py:72 main|train.py:99 <module>"
	return []wellness{
		{"a large tensor that an empty card would hold", "absurd-request", true, func() *program {
			p := on(16 * gib)
			p.load()
			p.train(2)
			p.forward(16)
			p.get(10*gib, "train.py:73 main|train.py:99 <module>")
			return p
		}},
		{"a batch of exactly twice the length", "exception-holds-tensors", true, func() *program {
			p := on(3 * gib)
			p.load()
			p.train(4)
			p.trainOn(2)
			p.trainOn(4)
			return p
		}},
		{"lengths that double and halve, recorded before 2.5", "exception-holds-tensors", true, func() *program {
			p := on(4 * gib)
			p.load()
			for _, scale := range []float64{1, 2, 1, 2, 1, 2, 8} {
				p.trainOn(scale)
			}
			p.notes = nil
			return p
		}},
		{"a model that loads, and a batch that does not", "model-load", true, func() *program {
			p := on(3 * gib)
			p.load()
			p.trainOn(20)
			return p
		}},
		{"samples drawn and saved by a function called save_samples", "checkpoint-save", true, func() *program {
			p := on(3 * gib)
			p.load()
			p.train(2)
			p.forwardAt(20, "train.py:92 save_samples|"+main)
			return p
		}},
		{"temporaries of a step whose state is there", "optimizer-state-first-step", true, func() *program {
			p := on(5 * gib)
			p.parameter, p.activation = 128*mib, 12*mib
			p.load()
			p.train(1)
			return p
		}},
		{"a loss over few classes", "logits", false, func() *program {
			p := on(16 * gib)
			p.load()
			for range 3 {
				p.graph = append(p.graph, p.get(8*mib, "t:nn/functional.py:3462 cross_entropy|t:nn/modules/loss.py:1385 forward|call|"+main))
				p.trainOn(1)
			}
			return p
		}},
		{"a step inside a function", "outputs-held", false, func() *program {
			p := on(16 * gib)
			p.load()
			for range 4 {
				out := p.get(400*mib, "t:nn/functional.py:3462 log_softmax|train.py:73 step|"+main)
				p.trainOn(1)
				p.drop(out)
			}
			return p
		}},
		{"labels of eight bytes beside a loss of four", "precision-too-high", false, func() *program {
			p := on(16 * gib)
			p.load()
			for range 3 {
				y := p.get(8, "train.py:71 main|train.py:99 <module>")
				p.trainOn(1)
				p.drop(y)
			}
			return p
		}},
		{"one layer gathered at a time", "fsdp-gather", false, func() *program {
			p := on(16 * gib)
			p.load()
			for range 3 {
				for range p.layers {
					p.drop(p.get(128*mib, "t:distributed/fsdp/_fully_shard/_fsdp_collectives.py:200 foreach_all_gather|t:distributed/fsdp/_fully_shard/_fsdp_param_group.py:300 unshard|train.py:31 forward|call|"+main))
				}
				p.trainOn(1)
			}
			return p
		}},
		{"DistributedDataParallel", "data-parallel", false, func() *program {
			p := on(16 * gib)
			p.load()
			for range 3 {
				p.forwardAt(1, "t:nn/parallel/distributed.py:1661 forward|call|"+main)
				p.zero()
				p.backward()
				p.step()
			}
			return p
		}},
		{"a compiled model that fits", "compile", false, func() *program {
			p := on(16 * gib)
			p.load()
			for range 4 {
				for range 10 {
					p.graph = append(p.graph, p.get(24*mib, "/tmp/torchinductor_me/ab/cabc.py:300 call|t:_inductor/output_code.py:584 __call__|t:_dynamo/eval_frame.py:838 compile_wrapper|call|"+main))
				}
				p.trainOn(1)
			}
			return p
		}},
		{"a small graph", "cuda-graph-pools", false, func() *program {
			p := on(16 * gib)
			p.load()
			p.take(16*mib, "t:cuda/graphs.py:120 capture_begin|"+main, 0, 1)
			p.train(3)
			return p
		}},
		{"one batch fetched ahead", "stream-held", false, func() *program {
			p := on(16 * gib)
			p.load()
			p.train(3)
			p.hand(p.get(8*mib, "train.py:71 prefetch|"+main))
			return p
		}},
		{"weights saved from the card as they are", "model-copies", false, func() *program {
			p := on(16 * gib)
			p.load()
			p.train(3)
			p.drop(p.get(64*mib, "t:_tensor.py:130 __deepcopy__|/usr/lib/python3.11/copy.py:153 deepcopy|"+main))
			p.train(2)
			return p
		}},
	}
}
