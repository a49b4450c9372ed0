"""Runs a script for real, on the CPU, as far as its first backward pass; prints the parameters it trains and the bytes that are kept for backward.

Kept is what autograd saved and what the script still refers to, but for the parameters and for what was there before the model was called.
"""
import gc
import json
import os
import runpy
import sys

import torch

saved, before, trained = {}, {}, {}


def storages(tensors):
    return {t.untyped_storage()._cdata: t.untyped_storage() for t in tensors if t.layout is torch.strided}


def everything():
    return [o for o in gc.get_objects() if isinstance(o, torch.Tensor)]


def pack(t):
    saved[t.untyped_storage()._cdata] = t.untyped_storage()
    return t


def called(module, args):
    if not torch.is_grad_enabled():
        return
    trained.update((id(p), p) for p in module._parameters.values() if p is not None and p.requires_grad)
    if not before:
        before.update(storages(everything()))


def backward(loss, *args, **kwargs):
    kept = {**saved, **storages(t for t in everything() if t.grad_fn is not None)}
    known = {*storages(trained.values()), *before}
    print("oracle", json.dumps({"parameters": sum(p.numel() for p in trained.values()), "kept": sum(s.nbytes() for key, s in kept.items() if key not in known)}))
    sys.stdout.flush()
    os._exit(0)


torch.nn.modules.module.register_module_forward_pre_hook(called)
torch._C._autograd._push_saved_tensors_default_hooks(pack, lambda t: t)
torch.Tensor.backward = backward
torch.autograd.backward = backward
torch.compile = lambda model=None, **kwargs: model
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
