package setup

import (
	"fmt"

	"github.com/plimsoll/plimsoll/internal/torch"
)

// Engine is what runs a setup's training step.
type Engine string

// The engines. Frameworks (Trainer, Accelerate, Lightning, torchtitan …) drive one of them.
const (
	PlainPyTorch Engine = "pytorch"     // the model's own step; DistributedDataParallel with several cards
	FullyShard   Engine = "fully_shard" // torch.distributed.fsdp.fully_shard (FSDP2)
	DeepSpeed    Engine = "deepspeed"
)

// Lowered is what runs when an engine takes a setup: memory is predicted from it, and files are written from it.
type Lowered struct {
	Engine Engine
	// Compute is what each process computes, in the words of plain PyTorch: its tensors are those of Compute on one card.
	Compute Setup
	// Masters: the engine keeps parameters and state in fp32 beside or instead of the 16-bit parameters that Compute has.
	Masters bool
	// Policy is the param_dtype of fully_shard's MixedPrecisionPolicy, "" for none.
	Policy torch.DType
}

// Lower says what runs. What the engine cannot do is refused.
func (s Setup) Lower() (Lowered, error) {
	l := Lowered{Engine: PlainPyTorch, Compute: s}
	if err := s.divided(); err != nil {
		return l, err
	}
	if err := s.Attn.Runs(s.Precision); err != nil {
		return l, err
	}
	if s.Offload.Has(OffloadOptimizer) { // torchao's and DeepSpeed's optimizers on the host have one implementation
		l.Compute.Optimizer = s.Optimizer.Kind()
	}
	switch s.Sharding {
	case HSDP, FSDP2:
		if err := s.Sharding.Possible(s.Ranks()); err != nil {
			return l, err
		}
		l.Engine = FullyShard
		return l, l.fullyShard(s)
	case ZeRO1, ZeRO2, ZeRO3:
		l.Engine = DeepSpeed
		return l, l.deepSpeed(s)
	}
	return l, nil
}

// divided refuses context parallelism that was not written down: of torchtitan's Llama, whose weights and gradients are then sharded over all cards.
// https://github.com/pytorch/torchtitan/blob/v0.2.2/torchtitan/distributed/parallel_dims.py (the mesh fsdp has dp_shard and cp)
func (s Setup) divided() error {
	switch {
	case s.Context < 2:
		return nil
	case s.Code != Torchtitan:
		return fmt.Errorf("context parallelism is supported for torchtitan only; --write torchtitan")
	case s.Sharding != FSDP2 || !s.Whole():
		return fmt.Errorf("context parallelism is supported with FSDP2 on all cards, without tensor and pipeline parallelism; --sharding fsdp2 --tensor 1 --stages 1")
	case s.Ranks()%s.Context != 0:
		return fmt.Errorf("%d cards cannot be divided into groups of %d that share a sample", s.Ranks(), s.Context)
	}
	return nil
}

// fullyShard: parameters are kept in shards of their own type. Under a MixedPrecisionPolicy they are gathered, and the model computes, in the policy's type;
// there is no autocast. https://github.com/pytorch/pytorch/blob/v2.11.0/torch/distributed/fsdp/_fully_shard/_fsdp_api.py#L9
func (l *Lowered) fullyShard(s Setup) error {
	cast := s.Precision.Autocast()
	switch {
	case s.Offload != OffloadNone:
		return fmt.Errorf("fully_shard with %s on the host is not supported; --offload none limits the search", s.Offload)
	case cast == torch.FP16:
		return fmt.Errorf("fully_shard with fp16 needs a gradient scaler of its own, which is not supported; --precision %s does without", torch.AmpBF16)
	case cast != "" && s.Cut.Tensor > 1 && s.Ranks() < 2: // nothing is sharded: autocast stays
	case cast != "":
		l.Policy, l.Masters = cast, true
		l.Compute.Precision = torch.PrecisionOf(cast, "", false)
	}
	return nil
}

// deepSpeed: 16-bit engines keep fp32 masters and fp32 state in partitions of the optimizer, and run their own fused Adam.
// https://github.com/deepspeedai/DeepSpeed/blob/v0.19.8/deepspeed/runtime/zero/stage_1_and_2.py (single_partition_of_fp32_groups)
func (l *Lowered) deepSpeed(s Setup) error {
	if s.Offload.Has(OffloadOptimizer) { // masters are on the host too
		return nil
	}
	l.Masters = s.Precision.Params().Bytes() == 2
	if kind, _ := s.Optimizer.Algorithm(); kind.Spelled.DeepSpeed != "" {
		l.Compute.Optimizer = s.Optimizer.Kind()
		if fused, ok := s.Optimizer.With(torch.Fused); ok {
			l.Compute.Optimizer = fused
		}
	}
	return nil
}
