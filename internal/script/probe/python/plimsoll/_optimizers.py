"""The smaller mitigations: an optimizer that goes parameter by parameter, and autocast where the user allows other numerics."""
import functools


def without_foreach(fit):
    """foreach=False: the step's temporaries are as large as one parameter, not all of them (torch/optim/adam.py, _multi_tensor_adam)."""
    optimizer_class = fit.torch.optim.Optimizer
    original = optimizer_class.__init__

    @functools.wraps(original)
    def __init__(optimizer, params, defaults, *args, **kwargs):
        if "foreach" in defaults and not defaults.get("fused") and defaults["foreach"] is not True:
            defaults["foreach"] = False
        original(optimizer, params, defaults, *args, **kwargs)
        if all(group.get("foreach") is False for group in optimizer.param_groups):
            fit.applied(f"{type(optimizer).__name__}(foreach=False)")

    optimizer_class.__init__ = __init__


def under_autocast(fit, dtype):
    """Run the outermost call of a training model under autocast."""
    torch = fit.torch
    kind = {"bf16": torch.bfloat16, "fp16": torch.float16}[dtype]
    call = torch.nn.Module.__call__
    depth = [0]

    @functools.wraps(call)
    def __call__(module, *args, **kwargs):
        if depth[0] or not module.training or not torch.is_grad_enabled():
            return call(module, *args, **kwargs)
        depth[0] += 1
        try:
            device = next((p.device.type for p in module.parameters()), "cuda")
            with torch.autocast(device, dtype=kind):
                fit.applied(f"autocast {dtype}")
                return call(module, *args, **kwargs)
        finally:
            depth[0] -= 1

    torch.nn.Module.__call__ = __call__
