"""What captures and traces rely on inside PyTorch, checked before they begin: a release that changes one of these is told by name."""
import importlib

# Attributes that are no documented interface, and what is done with them.
NEEDED = {
    "torch._subclasses.fake_tensor.FakeTensor": "tensors without data",
    "torch._subclasses.fake_tensor.FakeTensorMode": "tensors without data",
    "torch.utils._python_dispatch.TorchDispatchMode": "seeing every operator",
    "torch.overrides.TorchFunctionMode": "seeing every call",
    "torch.utils._device.DeviceContext": "devices the script asks for",
    "torch.utils._device._device_constructors": "devices the script asks for",
    "torch._C._nn._parse_to": "moving modules",
    "torch.optim.optimizer.register_optimizer_step_pre_hook": "optimizer steps",
    "torch.autograd.Function.apply": "autograd functions of the script's own",
    "torch.nn.Module.__call__": "calls of models",
    "torch.autograd.backward": "backward passes",
    "torch.utils.checkpoint.checkpoint": "activation checkpointing",
}
FOR_CAPTURES = {
    "torch.func.functional_call": "running models without data",
    "torch.export.export": "graphs of a step",
    "torch._export.serde.serialize.serialize": "graphs of a step",
}
FOR_TRACES = {
    "torch.overrides._get_current_function_mode_stack": "autograd functions of the script's own",
    "torch.utils._python_dispatch._get_current_dispatch_mode_stack": "seeing every operator",
    "torch.autograd._engine_run_backward": "autograd functions of the script's own",
    "torch.optim.optimizer.register_optimizer_step_post_hook": "optimizer steps",
    "torch.utils._foreach_utils._get_foreach_kernels_supported_devices": "optimizers over lists of tensors",
    "torch._C._ExcludeDispatchKeyGuard": "autocast",
    "torch._C._dispatch_get_registrations_for_dispatch_key": "autocast",
    "torch.library.Library": "kernels of the GPU",
    "torch.library.fallthrough_kernel": "autocast",
}


def missing(torch, more):
    """The internals that this PyTorch does not have, each with what it was for."""
    found = []
    for name, use in {**NEEDED, **more}.items():
        if not _there(name):
            found.append(f"{name} ({use})")
    return found


def _there(name):
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for part in parts[cut:]:
            if not hasattr(value, part):
                return False
            value = getattr(value, part)
        return True
    return False
