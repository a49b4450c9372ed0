"""Runs written modules that cut a model among processes: torchrun check_parallel.py FOLDER NAME…, one process per card. A training step has to give the loss
and the gradients of the whole model in one process, for every family the plans are made for."""
import copy
import json
import os
import pathlib
import sys

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import torch
import torch.distributed as dist
import transformers

SHAPE = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, vocab_size=64, use_cache=False, pad_token_id=0, initializer_range=0.2)
FAMILIES = {
    "llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**SHAPE, tie_word_embeddings=False)),
    "llama-tied": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**SHAPE, tie_word_embeddings=True)),
    "mistral": lambda: transformers.MistralForCausalLM(transformers.MistralConfig(**SHAPE)),
    "qwen2": lambda: transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**SHAPE)),
    "qwen3": lambda: transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**SHAPE, head_dim=8)),
    "mixtral": lambda: transformers.MixtralForCausalLM(transformers.MixtralConfig(**SHAPE, num_local_experts=4)),
    "gemma": lambda: transformers.GemmaForCausalLM(transformers.GemmaConfig(**SHAPE, head_dim=8)),
    "gemma2": lambda: transformers.Gemma2ForCausalLM(transformers.Gemma2Config(**SHAPE, head_dim=8)),
    "gemma3_text": lambda: transformers.Gemma3ForCausalLM(transformers.Gemma3TextConfig(**SHAPE, head_dim=8)),
}


def whole(grad):
    return (grad.full_tensor() if hasattr(grad, "full_tensor") else grad).detach().float()


def name_of(name, stage, plan):
    """The name in the whole model of a parameter of a stage."""
    name = name.removeprefix("module.")  # of DistributedDataParallel
    if plan["stages"] > 1:
        name = name.removeprefix("model.")
    parts = name.split(".")
    if plan["stages"] > 1 and parts[:2] == ["model", "layers"]:
        parts[2] = str(int(parts[2]) + stage * 2)
    return ".".join(parts)


def check(text, plan, family):
    torch.manual_seed(0)
    model = FAMILIES[family]()
    model.set_attn_implementation(plan["attn"])
    ranks, each = plan["ranks"], plan["micro_batch"] * plan["accumulate"]
    ids = torch.randint(1, 64, (ranks * each, 8))
    space = {"__name__": "written"}
    exec(compile(text, "written.py", "exec"), space)
    mesh = space["make_mesh"]()

    low = plan["precision"] == "amp-bf16"
    reference = copy.deepcopy(model).train()
    with torch.autocast("cpu", torch.bfloat16, enabled=low):
        want = reference(input_ids=ids, labels=ids).loss
    want.backward()
    wanted = {n: p.grad.float() for n, p in reference.named_parameters(remove_duplicate=False)}

    data, stage = mesh["data"].get_local_rank(), mesh["stage"].get_local_rank()
    mine = ids[data * each : (data + 1) * each]
    model = space["prepare"](model, mesh)
    optimizer = space["make_optimizer"](model, lr=0.1)
    before = {n: whole(p).clone() for n, p in model.named_parameters()}
    if plan["stages"] > 1:
        got = space["train_step"](model, optimizer, space["make_schedule"](model, mesh), mesh, mine, mine)
    else:
        batches = mine.split(plan["micro_batch"])
        got = space["train_step"](model, optimizer, batches, lambda m, b: m(input_ids=b, labels=b).loss)
    near = 0.05 if low else 1e-4
    if got is not None:
        got = got.detach().clone()
        dist.all_reduce(got, group=mesh["data"].get_group())
        assert abs(got / ranks - want) < near * abs(want), (float(got / ranks), float(want))
    seen = 0
    for name, p in model.named_parameters():
        grad, target = whole(p.grad), wanted[name_of(name, stage, plan)]
        error = (grad - target).norm() / target.norm().clamp(min=1e-6)
        assert error < (0.1 if low else 1e-3), (name, float(error))
        assert (whole(p) != before[name]).any(), name + " was not updated"
        seen += 1
    assert seen >= len(wanted) // plan["stages"] // 2, seen


def main():
    folder = pathlib.Path(sys.argv[1])
    plans = json.loads((folder / "plans.json").read_text())
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    failures = 0
    for path in sorted(folder.glob("torch-*.txt")):
        name, _, family = path.stem.split("-", 1)[1].partition("@")
        plan = plans[name]
        plan = dict(tensor=1, stages=1, ranks=plan["gpus"]) | plan
        if plan["gpus"] != dist.get_world_size():
            continue
        for variant in [f for f in FAMILIES if f.split("-")[0] == (family or "llama")]:
            try:
                check(path.read_text(), plan, variant)
                error = None
            except Exception as e:
                error = e
            worst = [None] * dist.get_world_size()
            dist.all_gather_object(worst, None if error is None else f"{type(error).__name__} {error}")
            if dist.get_rank() == 0:
                bad = [w for w in worst if w]
                print("FAILED" if bad else "ok", "torch", name, variant, *bad[:1])
            failures += any(worst)
    dist.destroy_process_group()
    sys.exit(1 if failures else 0)


main()
