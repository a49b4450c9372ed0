package planfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/setup"
)

// writeTorch is a module of plain PyTorch: what to do to the model, its optimizer, and one optimizer step.
func writeTorch(p report.Plan, m Model) (string, error) {
	switch {
	case cut(p), p.Sharding == "ddp":
		return writeCut(p, m)
	case p.Sharding != "":
		return "", fmt.Errorf("%s is not plain PyTorch's: --write %s", string(p.Sharding), map[bool]string{true: "fsdp2", false: "deepspeed"}[p.Sharding == "fsdp2"])
	}
	optimizer, err := makeOptimizer(p)
	if err != nil {
		return "", err
	}
	head := lines(
		"# Written by plimsoll fit: "+summary(p)+".",
		"# model = prepare(model); optimizer = make_optimizer(model, lr=...); then train_step for every "+fmt.Sprint(p.Accumulate)+" micro-batches.",
		conf(p),
		"import torch\n",
		fmt.Sprintf("MICRO_BATCH = %d  # batch_size of the DataLoader", p.MicroBatch),
		fmt.Sprintf("ACCUMULATE = %d", p.Accumulate),
		`DEVICE = "cuda" if torch.cuda.is_available() else "cpu"`,
		when(p.Precision == "tf32", "torch.backends.cuda.matmul.allow_tf32 = True"),
		when(p.Precision == "amp-fp16", "scaler = torch.amp.GradScaler(DEVICE)"),
	)
	return sections(head, prepare(p, m), optimizer, trainStep(p)), nil
}

// prepare puts the model where and how the plan wants it.
func prepare(p report.Plan, m Model) string {
	moved := "    model = model.to(DEVICE)"
	if t := paramType(p); t != "" {
		moved = fmt.Sprintf("    model = model.to(DEVICE, %s)", t)
	}
	return lines("def prepare(model):", moved, when(m.Hub && p.Attn != "", "    model.set_attn_implementation(%q)", p.Attn), checkpointing(p, m), "    return model.train()")
}

// checkpointing turns on what the plan checkpoints.
func checkpointing(p report.Plan, m Model) string {
	if !m.Hub {
		return checkpointModules(p, m)
	}
	return lines(checkpointAll(p), checkpointFirst(p))
}

// checkpointModules does so for modules by name.
func checkpointModules(p report.Plan, m Model) string {
	if p.Checkpointing == "none" {
		return ""
	}
	var quoted []string
	for i, n := range m.Modules {
		if p.Checkpointing == "full" || checkpointed(p, i) {
			quoted = append(quoted, strconv.Quote(n))
		}
	}
	return lines(
		"    from functools import partial",
		"    from torch.utils.checkpoint import checkpoint",
		"    for name in ["+strings.Join(quoted, ", ")+"]:",
		"        module = model.get_submodule(name)",
		"        module.forward = partial(checkpoint, module.forward, use_reentrant=False)")
}

func checkpointAll(p report.Plan) string {
	return when(p.Checkpointing != "none", `    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})`)
}

// checkpointFirst takes the later layers out again.
func checkpointFirst(p report.Plan) string {
	if p.Checkpointing != "selective" {
		return ""
	}
	return lines(
		"    from transformers.modeling_layers import GradientCheckpointingLayer",
		"    layers = [m for m in model.modules() if isinstance(m, GradientCheckpointingLayer)]",
		others(p),
		"        layer.gradient_checkpointing = False")
}

// others begins a loop over the layers that a selective plan leaves alone.
func others(p report.Plan) string {
	if p.Calls == nil {
		return fmt.Sprintf("    for layer in layers[%d:]:  # only the first %d are computed again", p.Layers, p.Layers)
	}
	return fmt.Sprintf("    again = {%s}  # the cheapest to compute again\n    for layer in (m for i, m in enumerate(layers) if i not in again):", strings.Trim(strings.Join(strings.Fields(fmt.Sprint(p.Calls)), ", "), "[]"))
}

// checkpointed tells whether a selective plan runs a layer again.
func checkpointed(p report.Plan, layer int) bool {
	if p.Calls == nil {
		return layer < p.Layers
	}
	return slices.Contains(p.Calls, layer)
}

// makeOptimizer names the optimizer's class and form.
func makeOptimizer(p report.Plan) (string, error) {
	name, arguments, err := class(p.Optimizer)
	if err != nil {
		return "", err
	}
	head := "def make_optimizer(model, **settings):\n    parameters = [p for p in model.parameters() if p.requires_grad]\n"
	if library, _, _ := strings.Cut(name, "."); library != "torch" {
		head += "    import " + library + "\n"
	}
	if p.Offload.Has(setup.OffloadOptimizer) {
		return head + fmt.Sprintf("    from torchao.optim import CPUOffloadOptimizer  # state and step on the host\n    return CPUOffloadOptimizer(parameters, %s%s, **settings)", name, arguments), nil
	}
	return head + fmt.Sprintf("    return %s(parameters%s%s, **settings)", name, arguments, form(p.Optimizer)), nil
}

// trainStep is one optimizer step: a function, so that the last batch and its outputs die with it.
func trainStep(p report.Plan) string {
	loop := "    for batch in micro_batches:"
	if p.Sharding == "ddp" && p.Accumulate > 1 { // gradients are reduced with the last micro-batch only, as DistributedDataParallel.no_sync does
		loop = lines("    for i, batch in enumerate(micro_batches, 1):", "        model.require_backward_grad_sync = i == ACCUMULATE")
	}
	return stepOver(loop, p)
}

// stepOver is the function around its loop.
func stepOver(loop string, p report.Plan) string {
	loss := "        loss = loss_of(model, batch) / ACCUMULATE"
	if t := lowType(p); t != "" {
		loss = fmt.Sprintf("        with torch.autocast(DEVICE, dtype=%s):\n            loss = loss_of(model, batch) / ACCUMULATE", t)
	}
	if p.Offload.Has(setup.OffloadActivations) {
		loss = "        with torch.autograd.graph.save_on_cpu(pin_memory=DEVICE == \"cuda\"):  # what autograd saves goes to the host\n" + indent(loss)
	}
	backward, update := "        loss.backward()", "    optimizer.step()"
	if p.Precision == "amp-fp16" {
		backward, update = "        scaler.scale(loss).backward()", "    scaler.step(optimizer)\n    scaler.update()"
	}
	return lines(
		"def train_step(model, optimizer, micro_batches, loss_of):",
		`    """One optimizer step over ACCUMULATE micro-batches; loss_of(model, batch) is a mean over its samples."""`,
		"    optimizer.zero_grad(set_to_none=True)",
		"    total = 0.0",
		loop,
		loss, backward,
		"        total += loss.detach()",
		update,
		"    return total")
}

// writeFSDP2 is the same with every layer sharded (torch.distributed.fsdp.fully_shard).
func writeFSDP2(p report.Plan, m Model) (string, error) {
	switch {
	case p.GPUs < 2:
		return "", fmt.Errorf("the plan uses one card; ask with --gpus N")
	case cut(p):
		return writeCut(p, m)
	}
	optimizer, err := makeOptimizer(p)
	if err != nil {
		return "", err
	}
	policy := ""
	if t := lowType(p); t != "" {
		policy = fmt.Sprintf(", mp_policy=MixedPrecisionPolicy(param_dtype=%s, reduce_dtype=torch.float32)", t)
	}
	moved := when(paramType(p) != "", "    model = model.to(%s)", paramType(p))
	plain := p
	plain.Precision = "fp32" // the policy casts
	head := lines(
		"# Written by plimsoll fit: "+summary(p)+".",
		"# Start it with torchrun; model = shard(model, layers), layers being the repeated blocks (model.model.layers).",
		conf(p),
		"import torch",
		"from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard\n",
		fmt.Sprintf("MICRO_BATCH = %d  # of each card", p.MicroBatch),
		fmt.Sprintf("ACCUMULATE = %d", p.Accumulate),
		`DEVICE = "cuda" if torch.cuda.is_available() else "cpu"`,
		when(p.Precision == "tf32", "torch.backends.cuda.matmul.allow_tf32 = True"),
	)
	shard := lines("def shard(model, layers, mesh=None):", moved, checkpointing(p, m),
		"    for layer in layers:",
		"        fully_shard(layer, mesh=mesh"+policy+")",
		"    fully_shard(model, mesh=mesh"+policy+")",
		"    return model.train()")
	return sections(head, shard, optimizer, trainStep(plain)), nil
}

// writeTorchrun is the command that starts the script on every card.
func writeTorchrun(p report.Plan, _ Model) (string, error) {
	command := fmt.Sprintf("torchrun --standalone --nproc-per-node=%d train.py\n", p.GPUs)
	if p.Conf != "" {
		command = fmt.Sprintf("PYTORCH_CUDA_ALLOC_CONF=%s %s", p.Conf, command)
	}
	return "# " + summary(p) + "\n" + command, nil
}
