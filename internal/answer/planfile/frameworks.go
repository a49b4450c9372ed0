package planfile

import (
	"encoding/json"
	"fmt"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/torch"
)

// writeTrainer is TrainingArguments of transformers.
func writeTrainer(p report.Plan, _ Model) (string, error) {
	kind, _ := p.Optimizer.Algorithm()
	optimizer, ok := kind.Spelled.Trainer[p.Optimizer.Form()]
	if err := onlyTorch(p, "the Trainer"); err != nil {
		return "", err
	}
	switch {
	case !ok:
		return "", fmt.Errorf("TrainingArguments has no word for optimizer %s; --optimizer %s limits the search to what it has", p.Optimizer, written)
	case p.Offload != "":
		return "", fmt.Errorf("the Trainer puts the optimizer on the host through DeepSpeed only: --write deepspeed, and deepspeed=\"ds.json\" in TrainingArguments")
	case p.Sharding != "" && p.Sharding != "ddp":
		return "", fmt.Errorf("%s is configured through Accelerate or DeepSpeed: --write accelerate or --write deepspeed beside it", p.Sharding)
	}
	return lines(
		"# Written by plimsoll fit: "+summary(p)+".",
		conf(p),
		when(paramType(p) != "", "# Load the model with from_pretrained(..., dtype=%s).", paramType(p)),
		when(p.Checkpointing == "selective", "# After model.gradient_checkpointing_enable(): of its GradientCheckpointingLayer modules set gradient_checkpointing = False %s.", exceptFor(p)),
		"from transformers import TrainingArguments\n",
		"args = TrainingArguments(",
		`    output_dir="out",`,
		fmt.Sprintf("    per_device_train_batch_size=%d,", p.MicroBatch),
		fmt.Sprintf("    gradient_accumulation_steps=%d,", p.Accumulate),
		fmt.Sprintf("    bf16=%s,", python(p.Precision == "amp-bf16")),
		fmt.Sprintf("    fp16=%s,", python(p.Precision == "amp-fp16")),
		when(p.Precision == "tf32", "    tf32=True,"),
		fmt.Sprintf("    gradient_checkpointing=%s,", python(p.Checkpointing != "none")),
		when(p.Checkpointing != "none", `    gradient_checkpointing_kwargs={"use_reentrant": False},`),
		fmt.Sprintf("    optim=%q,", optimizer),
		when(kind.Spelled.Arguments != "", "    optim_args=%q,", kind.Spelled.Arguments),
		")",
	), nil
}

// exceptFor names the layers that a selective plan leaves alone.
func exceptFor(p report.Plan) string {
	if p.Calls == nil {
		return fmt.Sprintf("from number %d on", p.Layers)
	}
	return fmt.Sprintf("except for numbers %v", p.Calls)
}

// writeLightning is arguments of lightning.Trainer.
func writeLightning(p report.Plan, m Model) (string, error) {
	if err := onlyTorch(p, "Lightning's Trainer"); err != nil {
		return "", err
	}
	precision := map[torch.Precision]string{"fp32": "32-true", "tf32": "32-true", "amp-bf16": "bf16-mixed", "amp-fp16": "16-mixed", "bf16": "bf16-true", "fp16": "16-true"}[p.Precision]
	strategy, ok := map[setup.Sharding]string{"": "auto", "ddp": "ddp", "zero1": "deepspeed_stage_1", "zero2": "deepspeed_stage_2", "zero3": "deepspeed_stage_3", "fsdp2": "fsdp"}[p.Sharding]
	switch {
	case !ok:
		return "", fmt.Errorf("Lightning has no strategy for %s", p.Sharding)
	case p.Offload != "":
		strategy = "deepspeed_stage_2_offload"
	}
	optimizer, err := makeOptimizer(p)
	if err != nil && p.Offload == "" {
		return "", err
	}
	head := lines(
		"# Written by plimsoll fit: "+summary(p)+".",
		conf(p),
		"import torch",
		"import lightning\n",
		fmt.Sprintf("MICRO_BATCH = %d  # batch_size of the DataLoader", p.MicroBatch),
		when(p.Precision == "tf32", "torch.backends.cuda.matmul.allow_tf32 = True"),
	)
	trainer := lines(
		"def make_trainer(**settings):",
		"    settings = dict(",
		fmt.Sprintf("        devices=%d,", max(p.GPUs, 1)),
		`        accelerator="gpu",`,
		fmt.Sprintf("        strategy=%q,", strategy),
		fmt.Sprintf("        precision=%q,", precision),
		fmt.Sprintf("        accumulate_grad_batches=%d,", p.Accumulate),
		"    ) | settings",
		"    return lightning.Trainer(**settings)",
	)
	return sections(head, checkpointedHook(p, m), "# configure_optimizers of the LightningModule returns make_optimizer(self, lr=...).\n"+optimizer, trainer), nil
}

// checkpointedHook is what to do to the model inside of a LightningModule.
func checkpointedHook(p report.Plan, m Model) string {
	if p.Checkpointing == "none" {
		return ""
	}
	return lines("def checkpoint(model):  # call it in configure_model", checkpointing(p, m), "    return model")
}

// writeAccelerate is the YAML of accelerate launch --config_file.
func writeAccelerate(p report.Plan, _ Model) (string, error) {
	if err := onlyTorch(p, "Accelerate's configuration"); err != nil {
		return "", err
	}
	mixed := map[torch.Precision]string{"amp-bf16": "bf16", "amp-fp16": "fp16"}[p.Precision]
	if mixed == "" {
		mixed = "'no'"
	}
	kind := map[setup.Sharding]string{"": "'NO'", "ddp": "MULTI_GPU", "fsdp2": "FSDP", "zero1": "DEEPSPEED", "zero2": "DEEPSPEED", "zero3": "DEEPSPEED"}[p.Sharding]
	details := ""
	switch p.Sharding {
	case "fsdp2":
		details = lines("fsdp_config:", "  fsdp_version: 2", "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP", "  fsdp_reshard_after_forward: true",
			fmt.Sprintf("  fsdp_activation_checkpointing: %t", p.Checkpointing == "full"), "  fsdp_state_dict_type: SHARDED_STATE_DICT")
	case "zero1", "zero2", "zero3":
		details = lines("deepspeed_config:", "  zero_stage: "+string(p.Sharding[len("zero"):]), fmt.Sprintf("  gradient_accumulation_steps: %d", p.Accumulate))
	}
	if p.Offload != "" {
		kind = "DEEPSPEED"
		details = lines("deepspeed_config:", "  zero_stage: 2", "  offload_optimizer_device: cpu", fmt.Sprintf("  gradient_accumulation_steps: %d", p.Accumulate))
	}
	return lines(
		"# Written by plimsoll fit: "+summary(p)+".",
		fmt.Sprintf("# DataLoader: batch_size=%d. Accelerator(gradient_accumulation_steps=%d).", p.MicroBatch, p.Accumulate),
		when(p.Conf != "", "# In the environment: PYTORCH_CUDA_ALLOC_CONF=%s", p.Conf),
		"compute_environment: LOCAL_MACHINE",
		"distributed_type: "+kind,
		"mixed_precision: "+mixed,
		"num_machines: 1",
		fmt.Sprintf("num_processes: %d", max(p.GPUs, 1)),
		"machine_rank: 0",
		"main_training_function: main",
		"use_cpu: false",
		details,
	), nil
}

// deepSpeed is the JSON DeepSpeed reads (deepspeed/runtime/config.py).
type deepSpeed struct {
	TrainBatch int             `json:"train_batch_size"`
	Micro      int             `json:"train_micro_batch_size_per_gpu"`
	Accumulate int             `json:"gradient_accumulation_steps"`
	BF16       *enabled        `json:"bf16,omitempty"`
	FP16       *enabled        `json:"fp16,omitempty"`
	Zero       zero            `json:"zero_optimization"`
	Optimizer  *deepSpeedOptim `json:"optimizer,omitempty"`
	Autocast   *autocast       `json:"torch_autocast,omitempty"`
}

type enabled struct {
	Enabled bool `json:"enabled"`
}

type autocast struct {
	Enabled bool   `json:"enabled"`
	DType   string `json:"dtype"`
}

type zero struct {
	Stage   int      `json:"stage"`
	Offload *offload `json:"offload_optimizer,omitempty"`
}

type offload struct {
	Device string `json:"device"`
	Pin    bool   `json:"pin_memory"`
}

type deepSpeedOptim struct {
	Type   string         `json:"type"`
	Params map[string]any `json:"params"`
}

func writeDeepSpeed(p report.Plan, _ Model) (string, error) {
	if err := onlyTorch(p, "DeepSpeed's JSON"); err != nil {
		return "", err
	}
	d := deepSpeed{TrainBatch: p.MicroBatch * p.Accumulate * max(p.GPUs, 1), Micro: p.MicroBatch, Accumulate: p.Accumulate}
	stage, ok := map[setup.Sharding]int{"": 0, "ddp": 0, "zero1": 1, "zero2": 2, "zero3": 3}[p.Sharding]
	if !ok {
		return "", fmt.Errorf("%s is not DeepSpeed's; --sharding zero1,zero2,zero3 limits the search to what it has", p.Sharding)
	}
	d.Zero.Stage = stage
	if p.Offload != "" {
		d.Zero = zero{Stage: max(stage, 2), Offload: &offload{Device: "cpu", Pin: true}}
	}
	switch p.Precision {
	case "amp-bf16":
		d.Autocast = &autocast{true, "bfloat16"}
	case "amp-fp16":
		d.Autocast = &autocast{true, "float16"}
	case "bf16":
		d.BF16 = &enabled{true}
	case "fp16":
		d.FP16 = &enabled{true}
	}
	kind, _ := p.Optimizer.Algorithm()
	if name := kind.Spelled.DeepSpeed; name != "" {
		d.Optimizer = &deepSpeedOptim{Type: name, Params: map[string]any{"lr": 1e-4}}
	}
	b, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return "", fmt.Errorf("write the JSON: %w", err)
	}
	return string(b) + "\n", nil
}
