package planfile

import (
	"fmt"

	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/torch"
)

func refuse(instead, why string, args ...any) *Refusal {
	return &Refusal{Why: fmt.Sprintf(why, args...), Instead: instead}
}

// common is what no form has words for.
func common(v view) *Refusal {
	switch {
	case v.Kind.Partial:
		return refuse("", "%s trains some of the parameters only, and which optimizer the others get is the script's choice", v.Optimizer)
	case v.Precision == torch.CastBF16:
		return refuse("--precision "+string(torch.PureBF16), "autocast over parameters in bf16 is predicted but cannot be written")
	case v.BaseBits == 8:
		return refuse("--base-bits 4", "an 8-bit base model is predicted but cannot be written")
	case v.LoRARank > 0 && !v.Hub():
		return refuse("", "adapters are supported for transformers models only")
	case v.LoRARank > 0 && v.GPUs > 1 && v.BaseBits > 0 && v.Sharding != setup.DDP:
		return refuse("--sharding ddp", "a 4-bit base model cannot be sharded")
	}
	return nil
}

// onlyTorch is what plain PyTorch alone has words for.
func onlyTorch(v view, framework string) *Refusal {
	switch {
	case cut(v.Plan):
		return refuse("--write torch", "%s cannot express a model split across cards (tensor parallel %d, %d stages)", framework, v.Tensor, v.Stages)
	case v.HostActivations():
		return refuse("--write torch, or --offload none,optimizer", "%s cannot express activations on the host", framework)
	case v.HostOptimizer() && v.Stage() == 0:
		return refuse("--write torch, or --offload none", "%s cannot express torchao's optimizer on the host, which was predicted", framework)
	}
	return nil
}

// quiet is what a configuration that is not a program has no words for.
func quiet(v view, framework string) *Refusal {
	switch {
	case v.LoRARank > 0:
		return refuse("--write trainer", "%s cannot express adapters", framework)
	case v.Conf != "":
		return refuse("--write trainer or torch", "%s cannot express allocator settings", framework)
	case v.Precision.TF32():
		return refuse("--write trainer or torch", "%s cannot express TF32", framework)
	}
	return nil
}

func first(found ...*Refusal) *Refusal {
	for _, r := range found {
		if r != nil {
			return r
		}
	}
	return nil
}

func canTorch(v view) *Refusal {
	switch {
	case (v.Sharding == setup.FSDP2 || v.Sharding == setup.HSDP) && !cut(v.Plan):
		return refuse("--write fsdp2", "sharded models have a format of their own")
	case v.Stage() > 0 && v.Sharding != "":
		return refuse("--write deepspeed", "%s is DeepSpeed's", v.Sharding)
	case v.LoRARank > 0 && v.GPUs > 1:
		return refuse("--write trainer", "adapters on several cards are not supported")
	}
	return first(common(v), canCut(v))
}

// canCut says why a plan that cuts the model, or has several ranks, has no words.
func canCut(v view) *Refusal {
	family, _ := hfconfig.FamilyOf(v.Model.Family)
	isCut := cut(v.Plan)
	switch {
	case isCut && !v.Hub():
		return refuse("", "only models of transformers are split across cards")
	case v.Tensor > 1 && family.Experts:
		return refuse("--tensor 1", "%s keeps its experts in one tensor, which parallelize_module cannot split", v.Model.Family)
	case v.GPUs > 1 && v.Offload != "":
		return refuse("--offload none, or --write torch", "several cards with %s on the host are not supported", v.Offload)
	case isCut && v.Precision == torch.AmpFP16:
		return refuse("--precision amp-bf16 or bf16", "GradScaler and a model split across cards do not go together")
	case isCut && v.Kind.Library() != "torch":
		return refuse("--optimizer "+written, "%s does not know the tensors of a model split across cards", v.Kind.Library())
	}
	return nil
}

// written are optimizers that every form has words for, as a flag takes them.
var written = string(torch.DefaultOptimizer)

func canTrainer(v view) *Refusal {
	if r := first(common(v), onlyTorch(v, "the Trainer")); r != nil {
		return r
	}
	deepSpeed := v.Stage() > 0
	switch {
	case v.Sharding == setup.HSDP:
		return refuse("--write fsdp2 or torchtitan, or --sharding fsdp2", "copies of a sharded model are not supported for the Trainer")
	case !v.Hub():
		return refuse("--write torch", "the Trainer loads models of transformers")
	case v.TrainerOptimizer() == "":
		return refuse("--optimizer "+written, "TrainingArguments has no option for optimizer %s", v.Optimizer)
	case deepSpeed && v.Kind.Spelled.DeepSpeed == "":
		return refuse("--optimizer "+written, "DeepSpeed has no name for optimizer %s", v.Optimizer)
	case deepSpeed && v.Precision.Autocast() != "":
		return refuse("--precision bf16", "the Trainer's DeepSpeed computes in its own bf16 with fp32 masters, not under autocast")
	case deepSpeed && v.LoRARank > 0, v.Sharding == setup.FSDP2 && v.LoRARank > 0:
		return refuse("--sharding ddp", "sharded adapters are not predicted the way the Trainer makes them")
	case v.Sharding == setup.FSDP2 && v.Checkpointing == setup.Selective:
		return refuse("--checkpointing none,full", "FSDP's configuration checkpoints every layer or none")
	}
	return nil
}

// canTRL: SFTTrainer is a Trainer with a loss of its own, which it gets from the weights of the head.
func canTRL(v view) *Refusal {
	if r := canTrainer(v); r != nil {
		return r
	}
	family, _ := hfconfig.FamilyOf(v.Model.Family)
	switch {
	case v.Model.Task != "causal-lm":
		return refuse("--write trainer", "TRL's SFTTrainer trains language models, not %s", v.Model.Task)
	case family.Experts:
		return refuse("--write trainer", "TRL adds a loss over the router's choices, which is not predicted")
	case v.Sharding != setup.Unsharded && v.Sharding != setup.DDP:
		return refuse("--write trainer, or --sharding ddp", "TRL gathers the weights of the head of a sharded model, which is not predicted")
	}
	return nil
}

func canAccelerate(v view) *Refusal {
	if r := first(common(v), onlyTorch(v, "Accelerate's configuration"), quiet(v, "Accelerate's configuration")); r != nil {
		return r
	}
	deepSpeed, narrow := v.Stage() > 0, v.Precision.Params().Bytes() == 2
	switch {
	case v.Sharding == setup.HSDP:
		return refuse("--write fsdp2 or torchtitan, or --sharding fsdp2", "copies of a sharded model are not supported for Accelerate")
	case v.Checkpointing != setup.None && (v.Sharding != setup.FSDP2 || v.Checkpointing != setup.Full):
		return refuse("--write trainer or torch, or --checkpointing none", "Accelerate's configuration does not turn checkpointing on")
	case narrow && !deepSpeed:
		return refuse("--write trainer or torch", "Accelerate's configuration does not say that parameters are %s", v.Precision.Params())
	case deepSpeed && v.Precision.Autocast() != "":
		return refuse("--precision bf16", "Accelerate's DeepSpeed computes in its own bf16 with fp32 masters, not under autocast")
	}
	return nil
}

func canDeepSpeed(v view) *Refusal {
	if r := first(common(v), onlyTorch(v, "DeepSpeed's JSON"), quiet(v, "DeepSpeed's JSON")); r != nil {
		return r
	}
	switch {
	case v.Stage() == 0:
		return refuse("--sharding zero1,zero2,zero3", "the plan shards nothing that DeepSpeed's JSON could describe")
	case v.Checkpointing != setup.None:
		return refuse("--write trainer, or --checkpointing none", "DeepSpeed's JSON does not turn checkpointing on in a model")
	case v.Kind.Spelled.DeepSpeed == "":
		return refuse("--optimizer "+written, "DeepSpeed has no name for optimizer %s", v.Optimizer)
	}
	return nil
}

func canFSDP2(v view) *Refusal {
	switch {
	case v.GPUs < 2:
		return refuse("--gpus N", "the plan uses one card")
	case v.Sharding != setup.FSDP2 && v.Sharding != setup.HSDP:
		return refuse("--sharding fsdp2", "the plan's sharding is %s", v.Sharding)
	case v.LoRARank > 0:
		return refuse("--write trainer", "adapters are not supported")
	case v.HostActivations() || v.HostOptimizer():
		return refuse("--offload none", "several cards with %s on the host are not supported", v.Offload)
	}
	return first(common(v), canCut(v))
}

func canLightning(v view) *Refusal {
	if r := first(common(v), onlyTorch(v, "Lightning's Trainer")); r != nil {
		return r
	}
	switch {
	case v.Sharding != "" && v.Sharding != setup.DDP:
		return refuse("--sharding ddp, or --write fsdp2 or deepspeed", "Lightning's strategy for %s is not supported", v.Sharding)
	case v.HostOptimizer():
		return refuse("--offload none", "Lightning's offload is not supported")
	case v.LoRARank > 0:
		return refuse("--write trainer or torch", "adapters are not supported for Lightning")
	}
	return nil
}

func canAxolotl(v view) *Refusal {
	if r := canTrainer(v); r != nil {
		return r
	}
	switch {
	case v.GPUs > 1:
		return refuse("--write trainer", "Axolotl on several cards is not supported")
	case v.Checkpointing == setup.Selective:
		return refuse("--checkpointing none,full", "Axolotl checkpoints every layer or none")
	case v.HostOptimizer():
		return refuse("--offload none", "Axolotl with an optimizer on the host is not supported")
	case v.Precision.Params().Bytes() == 2:
		return refuse("--precision amp-bf16", "Axolotl with parameters in 16 bits is not supported")
	case v.TrainerArguments() != "":
		return refuse("--optimizer "+written, "how Axolotl names %s is not known", v.Optimizer)
	}
	return nil
}

// canLlamaFactory: parameters that are trained are fp32, or all of it is bf16 (pure_bf16); a base that is not trained is in 16 bits under autocast.
// https://github.com/hiyouga/LLaMA-Factory/blob/v0.9.5/src/llamafactory/model/adapter.py#L313
func canLlamaFactory(v view) *Refusal {
	if r := canTrainer(v); r != nil {
		return r
	}
	switch {
	case v.GPUs > 1:
		return refuse("--write trainer", "LLaMA-Factory on several cards is not supported")
	case v.LoRARank > 0:
		return refuse("--write trainer", "LLaMA-Factory keeps the frozen model in 16 bits under autocast, which is not predicted")
	case v.Checkpointing == setup.Selective:
		return refuse("--checkpointing none,full", "LLaMA-Factory checkpoints every layer or none")
	case v.HostOptimizer():
		return refuse("--offload none", "LLaMA-Factory with an optimizer on the host is not supported")
	case v.Precision.Params() == torch.FP16:
		return refuse("--precision bf16 or amp-fp16", "LLaMA-Factory trains parameters in fp32 or bf16")
	case v.TrainerArguments() != "":
		return refuse("--optimizer "+written, "how LLaMA-Factory names %s is not known", v.Optimizer)
	}
	return nil
}

func canTorchtitan(v view) *Refusal {
	family, _ := hfconfig.FamilyOf(v.Model.Family)
	switch {
	case !v.Hub() || family.Elsewhere == "":
		return refuse("--write fsdp2", "torchtitan has model code of its own, and that of %s is not supported", v.Model.Family)
	case v.Conf != torch.ExpandableSegments:
		return refuse("no --conf", "torchtitan's run_train.sh sets PYTORCH_ALLOC_CONF=%s", torch.ExpandableSegments)
	case v.Sharding != setup.FSDP2 && v.Sharding != setup.HSDP || cut(v.Plan):
		return refuse("--sharding fsdp2 --tensor 1 --stages 1", "only fully sharded plans are supported for torchtitan")
	case v.Precision.Params() != torch.FP32:
		return refuse("--precision amp-bf16", "torchtitan keeps parameters in fp32")
	case v.Precision.TF32(), v.LoRARank > 0, v.Offload != "":
		return refuse("--write fsdp2", "torchtitan's configuration cannot express TF32, adapters or offload")
	case v.Checkpointing == setup.Selective:
		return refuse("--checkpointing none,full", "torchtitan's selective checkpointing is by operators, which is not predicted")
	case v.Kind.Library() != "torch" || v.Arguments() != "" || v.Kind.Name != string(v.Optimizer.Kind()) || !isAdam(v.LastClass()):
		return refuse("--optimizer "+written, "torchtitan has no name for optimizer %s", v.Optimizer)
	}
	return common(v)
}

// isAdam: torchtitan's optimizers (torchtitan/components/optimizer.py, build_optimizers).
func isAdam(class string) bool {
	kind, ok := torch.ByClass(class, false)
	return ok && kind.Spelled.DeepSpeed != "" && kind.Steps[torch.Fused].Passes > 0
}
