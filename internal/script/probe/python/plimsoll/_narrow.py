"""fully_shard's mixed precision, of one process: a module's parameters are cast for its forward pass, let go, and cast again when backward needs them
(torch/distributed/fsdp/_fully_shard/_fsdp_param.py: to_unsharded, to_sharded; inputs are cast by _fsdp_state.py, _pre_forward).
"""
MINE = "_plimsoll_narrow"


def install(trace, module, dtype):
    torch, forward = trace.torch, module.forward

    def cast(t):
        return t.to(dtype) if t.is_floating_point() and t.dtype != dtype else t

    def run(*args, **kwargs):
        from ._graph import mapped

        places = [(owner, key, p) for owner in _own(module) for key, p in owner._parameters.items() if p is not None]
        casts = {id(p): cast(p) for _, _, p in places}
        whose = {casts[id(p)].untyped_storage()._cdata: p for _, _, p in places if casts[id(p)] is not p}

        def pack(t):
            p = whose.get(t.untyped_storage()._cdata)
            return t if p is None else (p, t.shape, t.stride(), t.storage_offset())

        def unpack(kept):
            if isinstance(kept, torch.Tensor):
                return kept
            p, shape, stride, offset = kept
            with torch.no_grad():
                return p.detach().to(dtype).as_strided(shape, stride, offset)

        for owner, key, p in places:
            owner._parameters[key] = casts[id(p)]
        del casts
        try:
            with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
                return forward(*mapped(torch, args, cast), **mapped(torch, kwargs, cast))
        finally:
            for owner, key, p in places:
                owner._parameters[key] = p

    object.__setattr__(module, MINE, True)
    module.forward = run


def _own(module):
    """The module and those below it, but for what is sharded by itself."""
    yield module
    for child in module.children():
        if MINE not in child.__dict__:
            yield from _own(child)
