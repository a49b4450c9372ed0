"""Wraps the repeated blocks of a model in activation checkpointing.

A block is an element of a ModuleList or Sequential of at least two modules of one class that hold parameters. transformers' models know
better themselves and are asked to. Blocks with batch norm in training are left out: recomputing them would update their statistics twice.
"""
import functools


def install(fit):
    """Look at the first model that is called for training, wrap its blocks, and step aside."""
    from torch.nn.modules import module as nn_module

    handle = None

    def first_call(module, args):
        if not fit.torch.is_grad_enabled() or not module.training or not any(p.requires_grad for p in module.parameters()):
            return
        handle.remove()
        wrap(fit, module)

    handle = nn_module.register_module_forward_pre_hook(first_call)


def wrap(fit, model):
    inner = getattr(model, "module", model)
    if fit.trainer:
        return
    if getattr(inner, "supports_gradient_checkpointing", False) and hasattr(inner, "gradient_checkpointing_enable"):
        inner.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        if hasattr(inner, "config"):
            inner.config.use_cache = False
        fit.report["checkpoints"] = sum(1 for m in inner.modules() if getattr(m, "gradient_checkpointing", False))
        fit.applied("gradient checkpointing as the model offers it")
        return
    blocks, spared = find_blocks(fit.torch, inner)
    for block in blocks:
        _wrap_block(fit, block)
    fit.report["checkpoints"] = len(blocks)
    if not blocks:
        fit.refuse("the model has no repeated blocks to checkpoint" + (f" ({spared} hold batch norm)" if spared else ""), part="checkpoint")


def find_blocks(torch, model):
    """The blocks worth wrapping, outermost lists first, and how many were spared for their batch norm."""
    nn = torch.nn
    found, spared, covered = [], 0, set()
    for _, holder in model.named_modules():
        if not isinstance(holder, (nn.ModuleList, nn.Sequential)) or id(holder) in covered:
            continue
        kinds = [type(child) for child in holder]
        repeated = [c for c in holder if kinds.count(type(c)) > 1 and len(list(c.children())) and any(True for _ in c.parameters())]
        for block in repeated:
            covered.update(id(m) for m in block.modules())
            if any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in block.modules()):
                spared += 1
            else:
                found.append(block)
    return found, spared


def _wrap_block(fit, block):
    torch, original = fit.torch, block.forward
    from torch.utils.checkpoint import checkpoint

    entered = {"calls": 0, "again": False}

    def run(*args, **kwargs):
        if entered["again"]:
            fit.report["recomputed"] += 1
            fit.applied(f"checkpointing of {fit.report['checkpoints']} blocks")
        entered["again"] = True
        return original(*args, **kwargs)

    @functools.wraps(original)
    def forward(*args, **kwargs):
        if not torch.is_grad_enabled() or not block.training:
            return original(*args, **kwargs)
        entered["again"] = False
        return checkpoint(run, *args, use_reentrant=False, **kwargs)

    block.forward = forward
