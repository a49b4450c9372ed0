package diagnose_test

import (
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/report"
)

// wellness is a program with nothing wrong that looks like one with something wrong.
type wellness struct {
	name string
	not  string // the finding it must not get at any severity; "" for none in particular
	dies bool   // it does run out of memory, for another reason
	run  func() *program
}

func healthy() []wellness {
	return append(append(healthyLoops(), healthyLookalikes()...), closeCalls()...)
}

func healthyLoops() []wellness {
	return []wellness{
		{"a plain loop with Adam", "", false, func() *program {
			p := on(16 * gib)
			p.load()
			p.train(8)
			return p
		}},
		{"mixed precision: casts of the weights live through the step", "growth", false, func() *program {
			p := on(16 * gib)
			p.load()
			for range 6 {
				var casts []*tensor
				x := p.batch(1)
				for _, w := range p.params {
					casts = append(casts, p.get(w.size/2, "t:nn/modules/linear.py:134 forward|call|train.py:20 forward|call|train.py:31 forward|call|train.py:72 main|train.py:99 <module>"))
				}
				p.forward(0.5)
				p.zero()
				p.backward()
				p.drop(casts...)
				p.step()
				p.drop(x)
			}
			return p
		}},
		{"accumulation of four micro-batches", "accumulation-unsharded-grads", false, func() *program {
			p := on(16 * gib)
			p.load()
			for range 5 {
				for range 4 {
					x := p.batch(1)
					p.forward(1)
					p.backward()
					p.drop(x)
				}
				p.step()
				p.zero()
			}
			return p
		}},
		{"evaluation under no_grad with metrics as numbers", "eval-outputs-kept", false, func() *program {
			p := on(16 * gib)
			p.load()
			for range 3 {
				p.train(3)
				for range 12 {
					x := p.get(4*mib, "train.py:82 evaluate|train.py:97 main|train.py:99 <module>")
					p.inference(1, "train.py:83 evaluate|train.py:97 main|train.py:99 <module>")
					p.drop(x, p.get(8*mib, "t:nn/functional.py:2567 softmax|train.py:84 evaluate|train.py:97 main|train.py:99 <module>"))
				}
			}
			return p
		}},
		{"generation with a KV cache", "eval-graph-kept", true, func() *program {
			p := on(3 * gib)
			p.load()
			p.train(2)
			const layer = "call|s:transformers/models/llama/modeling_llama.py:480 forward|call|s:transformers/generation/utils.py:2700 _sample|s:transformers/generation/utils.py:2300 generate|train.py:84 evaluate|train.py:97 main|train.py:99 <module>"
			for range 40 {
				p.inference(0.1, "train.py:84 evaluate|train.py:97 main|train.py:99 <module>")
				p.get(20*mib, "s:transformers/cache_utils.py:110 update|"+layer)
				p.get(20*mib, "s:transformers/cache_utils.py:111 update|"+layer)
			}
			return p
		}},
		{"an average of the weights on the CPU", "model-copies", false, func() *program {
			p := on(16 * gib)
			p.load()
			for range 6 {
				p.trainOn(1)
				p.drop(p.get(64*mib, "t:optim/swa_utils.py:350 update_parameters|train.py:78 main|train.py:99 <module>"))
			}
			return p
		}},
		{"activation checkpointing", "checkpointing-ineffective", false, func() *program {
			p := on(16 * gib)
			p.load()
			for range 4 {
				x := p.batch(1)
				const layer = "|call|t:utils/checkpoint.py:263 forward|t:autograd/function.py:581 apply|t:utils/checkpoint.py:496 checkpoint|train.py:31 forward|call|train.py:72 main|train.py:99 <module>"
				for range p.layers {
					inner := p.get(48*mib, "t:nn/modules/linear.py:134 forward|call|train.py:20 forward"+layer)
					p.graph = append(p.graph, p.get(16*mib, "t:nn/functional.py:1425 dropout|train.py:22 forward"+layer))
					p.drop(inner)
				}
				p.zero()
				p.backward()
				p.step()
				p.drop(x)
			}
			return p
		}},
		{"sequences of many lengths", "input-spike", false, func() *program {
			p := on(16 * gib)
			p.load()
			for i := range 12 {
				p.trainOn([]float64{1, 2.5, 0.7, 3.9, 1.4}[i%5])
			}
			return p
		}},
		{"a plain script: outputs live until the next step", "growth", false, func() *program {
			p := on(16 * gib)
			p.load()
			var outputs *tensor
			for range 8 {
				x := p.batch(1)
				p.forward(1)
				p.drop(outputs)
				outputs = p.get(16*mib, "train.py:73 main|train.py:99 <module>")
				p.zero()
				p.backward()
				p.step()
				p.drop(x)
			}
			return p
		}},
	}
}

func healthyLookalikes() []wellness {
	return []wellness{
		{"two layers of the same size made by two lines", "model-copies", false, func() *program {
			p := on(16 * gib)
			for _, line := range []string{"12", "13"} {
				for range 4 {
					p.params = append(p.params, p.get(64*mib, "t:nn/modules/linear.py:109 __init__|train.py:"+line+" __init__|train.py:60 main|train.py:99 <module>"))
				}
			}
			p.train(4)
			return p
		}},
		{"a model loaded whole with torch.load", "resume-doubles", false, func() *program {
			p := on(16 * gib)
			for range p.layers {
				p.params = append(p.params, p.get(p.parameter, "t:serialization.py:1400 restore_location|t:serialization.py:1500 load|train.py:64 resume|train.py:99 <module>"))
			}
			p.train(3)
			return p
		}},
		{"adapters on a frozen base that fails in forward", "model-too-large", true, func() *program {
			p := on(6 * gib)
			p.parameter = 512 * mib
			p.load()
			p.params = []*tensor{{size: 4 * mib}, {size: 4 * mib}}
			p.trainOn(1)
			p.trainOn(20)
			return p
		}},
		{"a full card that is not fragmented", "fragmentation", true, func() *program {
			p := on(5 * gib)
			p.load()
			p.trainOn(20)
			return p
		}},
		{"a long batch in the third of equal steps", "second-step", true, func() *program {
			p := on(4 * gib)
			p.load()
			p.train(3)
			p.trainOn(6)
			return p
		}},
		{"equal batches", "input-spike", true, func() *program {
			p := on(3*gib + 200*mib)
			p.load()
			p.trainOn(4)
			p.trainOn(4)
			return p
		}},
		{"Lightning runs the step as the optimizer's closure", "optimizer-step-temporaries", true, func() *program {
			p := on(3 * gib)
			p.load()
			const closure = "model.py:30 training_step|s:lightning/pytorch/strategies/strategy.py:390 training_step|s:lightning/pytorch/loops/optimization/automatic.py:129 closure|t:optim/adam.py:226 step|t:optim/optimizer.py:533 wrapper|s:lightning/pytorch/core/optimizer.py:154 step|train.py:40 main|train.py:99 <module>"
			p.forwardAt(20, closure)
			return p
		}},
		{"a forward pass through DistributedDataParallel", "ddp-buckets", false, func() *program {
			p := on(16 * gib)
			p.load()
			for range 3 {
				p.forwardAt(1, "t:nn/parallel/distributed.py:1661 forward|call|train.py:72 main|train.py:99 <module>")
				p.zero()
				p.backward()
				p.step()
			}
			return p
		}},
		{"sharded training that synchronises every micro-batch", "accumulation-unsharded-grads", false, func() *program {
			p := on(16 * gib)
			p.load()
			for range 3 {
				p.drop(p.get(512*mib, "t:distributed/fsdp/_fully_shard/_fsdp_collectives.py:200 foreach_all_gather|t:distributed/fsdp/_fully_shard/_fsdp_param_group.py:300 unshard|train.py:31 forward|call|train.py:72 main|train.py:99 <module>"))
				p.trainOn(1)
			}
			return p
		}},
		{"inputs of one batch in many pieces", "dataset-on-gpu", false, func() *program {
			p := on(16 * gib)
			p.load()
			for range 3 {
				var pieces []*tensor
				for range 32 {
					pieces = append(pieces, p.get(40*mib, "train.py:70 <listcomp>|train.py:70 main|train.py:99 <module>"))
				}
				p.trainOn(1)
				p.drop(pieces...)
			}
			return p
		}},
		{"a large first batch that goes", "dataset-on-gpu", false, func() *program {
			p := on(16 * gib)
			p.load()
			p.train(1)
			for range 4 {
				x := p.get(1*gib, "train.py:70 main|train.py:99 <module>")
				p.trainOn(1)
				p.drop(x)
			}
			return p
		}},
		{"a softmax over classes", "attention-quadratic", false, func() *program {
			p := on(16 * gib)
			p.load()
			for range 4 {
				p.graph = append(p.graph, p.get(900*mib, "t:nn/functional.py:2133 softmax|train.py:33 forward|call|train.py:72 main|train.py:99 <module>"))
				p.trainOn(1)
			}
			return p
		}},
		{"expandable segments alone", "alloc-conf-conflict", false, func() *program {
			p := on(16 * gib)
			p.conf["PYTORCH_CUDA_ALLOC_CONF"], p.conf["max_split_size"] = "max_split_size_mb:128", 128*mib
			p.load()
			p.train(2)
			return p
		}},
		{"a small workspace in a convolution", "cudnn-workspace", true, func() *program {
			p := on(1 * gib)
			p.load()
			const conv = "t:nn/modules/conv.py:548 _conv_forward|t:nn/modules/conv.py:553 forward|call|train.py:20 forward|call|train.py:72 main|train.py:99 <module>"
			for range 20 {
				p.get(64*mib, conv)
			}
			return p
		}},
		{"fused attention and a short vocabulary", "attention-quadratic", false, func() *program {
			p := on(16 * gib)
			p.load()
			for range 3 {
				for range 12 {
					p.graph = append(p.graph, p.get(16*mib, "s:transformers/integrations/sdpa_attention.py:96 sdpa_attention_forward|s:transformers/models/llama/modeling_llama.py:240 forward|call|train.py:72 main|train.py:99 <module>"))
				}
				p.trainOn(1)
			}
			return p
		}},
	}
}

func TestHealthyProgramsAreLeftAlone(t *testing.T) {
	t.Parallel()
	for _, h := range healthy() {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			p := h.run()
			show(t, "healthy-"+h.name, p)
			if (p.failed > 0) != h.dies {
				t.Fatalf("the program failed %d times", p.failed)
			}
			r := p.explain(t)
			for _, f := range r.Findings {
				if f.ID == h.not {
					t.Errorf("gets %s: %s", f.ID, f.Title)
				}
				if !h.dies && f.Severity != report.Remark {
					t.Errorf("gets a %s, %s: %s", f.Severity, f.ID, f.Title)
				}
			}
			if h.dies && len(r.Findings) == 0 {
				t.Error("died, and nothing is said about it")
			}
		})
	}
}
