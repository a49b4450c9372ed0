package planfile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/torch"
)

// cut tells whether a plan cuts the model among cards.
func cut(p report.Plan) bool { return p.Tensor > 1 || p.Stages > 1 }

// writeCut is a module of plain PyTorch for several cards: ranks by DistributedDataParallel, and for a model that is cut layers by torch.distributed.tensor.parallel, stages by torch.distributed.pipelining.
func writeCut(p report.Plan, m Model) (string, error) {
	if !cut(p) {
		p.Tensor, p.Stages, p.Ranks = 1, 1, p.GPUs
	}
	v, err := newView(p, m)
	if err != nil {
		return "", err
	}
	optimizer := makeGroupedOptimizer(v)
	if p.Tensor < 2 && p.Stages < 2 {
		optimizer = part("optimizer", v)
	}
	run := "make_optimizer(model, lr=...); train_step for every " + fmt.Sprint(p.Accumulate) + " micro-batches"
	if p.Stages > 1 {
		run = "make_optimizer(model, lr=...); schedule = make_schedule(model, mesh); train_step for every batch"
	}
	head := lines(
		"# Written by plimsoll fit: "+summary(p)+".",
		fmt.Sprintf("# Start it with torchrun on %d cards. mesh = make_mesh(); model = prepare(model, mesh); optimizer = %s.", p.GPUs, run),
		`# Give all cards of mesh["data"].get_local_rank() the same batches, and each such rank others (DistributedSampler's rank and num_replicas).`,
		strings.TrimPrefix(part("allocator", v), "\n"),
		when(p.Conf == "", "import os"),
		"\nimport torch",
		"import torch.distributed as dist",
		"from torch.distributed.device_mesh import init_device_mesh",
		when(p.Sharding == "fsdp2", "from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard"),
		when(p.Stages > 1, "from torch.distributed.pipelining import PipelineStage, Schedule1F1B"),
		when(p.Tensor > 1, "from torch.distributed.tensor import Replicate"),
		when(p.Tensor > 1, "from torch.distributed.tensor.parallel import ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel, parallelize_module"),
		"",
		fmt.Sprintf("\nMICRO_BATCH = %d  # of each data rank", p.MicroBatch),
		fmt.Sprintf("ACCUMULATE = %d", p.Accumulate),
		fmt.Sprintf("RANKS, STAGES, TENSOR = %d, %d, %d", p.Ranks, p.Stages, p.Tensor),
		`DEVICE = "cuda" if torch.cuda.is_available() else "cpu"`,
		when(p.Precision == "tf32", "torch.backends.cuda.matmul.allow_tf32 = True"),
		when(p.Precision == "amp-fp16", "scaler = torch.amp.GradScaler(DEVICE)"),
	)
	step := part("step", v)
	if p.Stages > 1 {
		step = sections(makeSchedule, pipelinedStep)
	}
	return sections(head, makeMesh, tensorPlan(p, m), stageClass(v), prepareCut(v), optimizer, step), nil
}

// makeMesh puts the cards of one layer next to each other: they talk most.
const makeMesh = `def make_mesh():
    if not dist.is_initialized():
        dist.init_process_group()
    if DEVICE == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    return init_device_mesh(DEVICE, (RANKS, STAGES, TENSOR), mesh_dim_names=("data", "stage", "tensor"))`

// tensorPlan says how a layer is cut: what reads hidden states by columns, what writes them by rows, so that each half ends in one all-reduce
// (base_model_tp_plan of the family's config class).
func tensorPlan(p report.Plan, m Model) string {
	if p.Tensor < 2 {
		return ""
	}
	norms := ""
	if family, _ := hfconfig.FamilyOf(m.Family); family.QueryNorm != hfconfig.QueryNormNone { // by heads: their gradients are summed over the cards
		norms = "    \"self_attn.q_norm\": SequenceParallel(sequence_dim=2, use_local_output=True),\n    \"self_attn.k_norm\": SequenceParallel(sequence_dim=2, use_local_output=True),"
	}
	return lines("# Hidden states, norms, embeddings and the head are whole on every card; heads and the MLP's width are cut.",
		"LAYER = {",
		`    "self_attn": PrepareModuleInput(input_kwarg_layouts={"hidden_states": Replicate()}, desired_input_kwarg_layouts={"hidden_states": Replicate()}),`,
		`    "self_attn.q_proj": ColwiseParallel(),`,
		`    "self_attn.k_proj": ColwiseParallel(),`,
		`    "self_attn.v_proj": ColwiseParallel(),`,
		norms,
		`    "self_attn.o_proj": RowwiseParallel(),`,
		`    "mlp": PrepareModuleInput(input_layouts=(Replicate(),), desired_input_layouts=(Replicate(),)),`,
		`    "mlp.gate_proj": ColwiseParallel(),`,
		`    "mlp.up_proj": ColwiseParallel(),`,
		`    "mlp.down_proj": RowwiseParallel(),`,
		"}")
}

// stageClass keeps one stage's layers of a causal language model of transformers.
func stageClass(v view) string {
	if v.Stages < 2 {
		return ""
	}
	call := lines(
		"        given = {\"input_ids\": x} if self.first else {\"inputs_embeds\": x}",
		"        if self.last:",
		"            return self.model(**given, use_cache=False).logits",
		"        return self.model.model(**given, use_cache=False).last_hidden_state")
	if t := v.CastName(); t != "" {
		call = fmt.Sprintf("        with torch.autocast(DEVICE, dtype=torch.%s):\n", t) + indent(call)
	}
	return lines(
		"class Stage(torch.nn.Module):",
		`    """The layers of one stage; the first has the embeddings, the last the norm and the head."""`,
		"",
		"    def __init__(self, model, index):",
		"        super().__init__()",
		"        each = -(-len(model.model.layers) // STAGES)",
		"        mine = slice(index * each, (index + 1) * each)",
		"        model.model.layers = model.model.layers[mine]",
		"        if getattr(model.config, \"layer_types\", None):",
		"            model.config.layer_types = model.config.layer_types[mine]",
		"        self.model, self.first, self.last = model, index == 0, index == STAGES - 1",
		"        if not self.first:",
		"            model.model.embed_tokens = None",
		"        if not self.last:",
		"            model.model.norm, model.lm_head = torch.nn.Identity(), None",
		"",
		"    def forward(self, x):",
		call)
}

// prepareCut cuts the model and spreads what is left over the ranks that see different data.
func prepareCut(v view) string {
	p, m := v.Plan, v.Model
	moved := "    model = model.to(DEVICE)"
	if t := p.Precision.Params(); t != torch.FP32 {
		moved = fmt.Sprintf("    model = model.to(DEVICE, torch.%s)", t.Name())
	}
	policy := v.PolicyArgument()
	if p.Stages > 1 {
		policy += ", reshard_after_forward=False" // stages gather once a step
	}
	layers := "model.model.layers"
	if p.Stages > 1 {
		layers = "model.model.model.layers"
	}
	sharded := ""
	switch {
	case p.Ranks > 1 && p.Sharding == "fsdp2":
		sharded = lines("    for layer in "+layers+":", `        fully_shard(layer, mesh=mesh["data"]`+policy+")", `    fully_shard(model, mesh=mesh["data"]`+policy+")")
	case p.Ranks > 1:
		sharded = `    model = torch.nn.parallel.DistributedDataParallel(model, process_group=mesh["data"].get_group())`
	}
	all := v
	if m.Hub && p.Checkpointing == setup.Selective { // layers are left alone once the model is cut
		all.Checkpointing = setup.Full
	}
	checkpointing := strings.TrimPrefix(part("checkpointing", all), "\n")
	return lines("def prepare(model, mesh):", moved,
		when(m.Hub && p.Attn != "", "    model.set_attn_implementation(%q)", p.Attn),
		checkpointing,
		when(p.Tensor > 1, "    for layer in model.model.layers:\n        parallelize_module(layer, mesh[\"tensor\"], LAYER)"),
		when(p.Stages > 1, "    model = Stage(model, mesh[\"stage\"].get_local_rank())"),
		when(m.Hub, "%s", strings.TrimPrefix(part("leave-alone", v), "\n")), // of the layers that are left
		"    model.train()",
		sharded,
		"    return model")
}

// makeGroupedOptimizer gives each kind of tensor a group of its own: the lists of a foreach or fused step do not mix meshes.
func makeGroupedOptimizer(v view) string {
	return lines("def make_optimizer(model, **settings):",
		"    groups = {}  # tensors of one mesh each: foreach and fused steps do not mix them",
		"    for p in model.parameters():",
		"        if p.requires_grad:",
		"            groups.setdefault(getattr(p, \"device_mesh\", None), []).append(p)",
		fmt.Sprintf("    return %s([{\"params\": group} for group in groups.values()]%s%s, **settings)", v.Class(), v.Arguments(), v.Form()))
}

// part renders a shared part of the forms.
func part(name string, v view) string {
	text, err := render(name, v)
	if err != nil {
		panic(err) // a template that every test renders
	}
	return text
}

// lines joins what is not empty; a block may bring several lines.
func lines(blocks ...string) string { return join("\n", blocks) }

// sections joins parts of a Python module, two empty lines between them.
func sections(blocks ...string) string { return join("\n\n\n", blocks) }

func join(between string, blocks []string) string {
	return strings.Join(slices.DeleteFunc(blocks, func(b string) bool { return b == "" }), between)
}

// indent moves lines one level to the right.
func indent(text string) string { return "    " + strings.ReplaceAll(text, "\n", "\n    ") }

// makeSchedule is one forward one backward; the schedule divides the gradients by the number of micro-batches.
const makeSchedule = `def mean_loss(logits, labels):
    return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten())


def make_schedule(model, mesh, loss_fn=mean_loss):
    index = mesh["stage"].get_local_rank()
    stage = PipelineStage(model, index, STAGES, torch.device(DEVICE), group=mesh["stage"].get_group())
    return Schedule1F1B(stage, n_microbatches=ACCUMULATE, loss_fn=loss_fn)


def tie(model, mesh):
    """Sums the gradients of an embedding that is also the head: the first and the last stage hold a copy each."""
    stage = getattr(model, "module", model)
    if not stage.model.config.tie_word_embeddings or not (stage.first or stage.last):
        return
    weight = stage.model.model.embed_tokens.weight if stage.first else stage.model.lm_head.weight
    grad = weight.grad.to_local() if hasattr(weight.grad, "to_local") else weight.grad
    ends = mesh["stage"].mesh.tolist()
    received = torch.empty_like(grad)
    if stage.first:
        dist.send(grad.contiguous(), ends[-1])
        dist.recv(received, ends[-1])
    else:
        dist.recv(received, ends[0])
        dist.send(grad.contiguous(), ends[0])
    grad.add_(received)`

// pipelinedStep is one optimizer step through the schedule.
const pipelinedStep = `def train_step(model, optimizer, schedule, mesh, ids, labels):
    """One optimizer step over MICRO_BATCH * ACCUMULATE samples; the last stage returns the loss."""
    optimizer.zero_grad(set_to_none=True)
    losses, index = [], mesh["stage"].get_local_rank()
    if index == 0:
        schedule.step(ids)
    elif index == STAGES - 1:
        schedule.step(target=labels, losses=losses)
    else:
        schedule.step()
    tie(model, mesh)
    optimizer.step()
    return torch.stack(losses).mean().detach() if losses else None`
