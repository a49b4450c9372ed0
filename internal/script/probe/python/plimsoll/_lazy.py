"""Lazy modules (LazyLinear and its kin): their parameters get a shape from the first batch. They are made on the host, whatever the batch is made of, and then go where the script had sent them.

PyTorch: https://github.com/pytorch/pytorch/blob/v2.11.0/torch/nn/modules/lazy.py (_infer_parameters, _lazy_load_hook).
"""
import functools

SENT = "_plimsoll_sent"  # on a parameter without a shape: what it was moved and converted by, in order


def install(torch, arrive=lambda module: None):
    """arrive(module) is called once a lazy module has its parameters."""
    from torch.utils._python_dispatch import _disable_current_modes

    kind = torch.nn.modules.lazy.LazyModuleMixin

    def outside(original):
        @functools.wraps(original)
        def made(module, *args, **kwargs):
            with _disable_current_modes():
                result = original(module, *args, **kwargs)
            arrive(module)
            return result

        return made

    for name in ("_infer_parameters", "_lazy_load_hook"):
        setattr(kind, name, outside(getattr(kind, name)))


def waits(torch, tensor):
    """Whether a parameter or buffer has no shape yet."""
    return isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin)


def any_waits(torch, module):
    return any(waits(torch, t) for m in module.modules() for t in (*m._parameters.values(), *m._buffers.values()))


def send(tensor, change):
    """Keep a change for when there is something to change."""
    tensor.__dict__.setdefault(SENT, []).append(change)
    return tensor


def sent(tensor):
    """The changes that were kept for a tensor, once."""
    return tensor.__dict__.pop(SENT, ()) if tensor is not None else ()
