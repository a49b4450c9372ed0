"""Knows parameters, buffers, gradients and optimizer state by the model's own names, as named_parameters() and state_dict() would tell them, without calling either."""
import gc

from . import _names
from ._walk import TENSOR, Root

PARAMETER, GRADIENT, OPTIMIZER, BUFFER = "parameter", "gradient", "optimizer", "buffer"


class Role:
    """What a tensor is: of which name of its own, of which model (an object the walk reached) or tensor."""

    __slots__ = ("role", "name", "owner", "kind", "module")

    def __init__(self, role, name, owner, kind="", module=""):
        self.role, self.name, self.owner, self.kind, self.module = role, name, owner, kind, module


def roles(walk):
    """Roles by the id of a tensor."""
    found = {}
    for root, modules in _trees(walk):
        for prefix, module in modules:
            for registry, role in (("_parameters", PARAMETER), ("_buffers", BUFFER)):
                for key, tensor in _items(_attribute(module, registry)):
                    if type(key) is str and tensor is not None and walk.kind(type(tensor)) == TENSOR:
                        _assign(walk, found, tensor, Role(role, f"{prefix}.{key}" if prefix else key, root, module=prefix))
    for optimizer in walk.optimizers:
        _state(walk, found, optimizer)
    return found


def _assign(walk, found, tensor, role, depth=0):
    """Give a tensor its role, what it wraps the same, and its gradient that of a gradient."""
    if id(tensor) in found or depth > 2:
        return
    found[id(tensor)] = role
    inner = gc.get_referents(tensor)
    for value in inner + [v for o in inner if type(o) is dict for v in o.values()]:
        if value is not None and walk.kind(type(value)) == TENSOR:
            _assign(walk, found, value, role, depth + 1)
    if role.role == PARAMETER and walk.is_leaf(tensor):
        gradient = walk.grad(tensor)
        if gradient is not None:
            walk.kept.append(gradient)
            _assign(walk, found, gradient, Role(GRADIENT, role.name, role.owner, module=role.module), depth + 1)


def _state(walk, found, optimizer):
    """Parameters that only the optimizer knows, and its state of all."""
    for g, group in enumerate(_sequence(_attribute(optimizer, "param_groups"))):
        for i, tensor in enumerate(_sequence(dict(_items(group)).get("params"))):
            if walk.kind(type(tensor)) == TENSOR and id(tensor) not in found:
                _assign(walk, found, tensor, Role(PARAMETER, "", tensor))
    for tensor, state in _items(_attribute(optimizer, "state")):
        if walk.kind(type(tensor)) != TENSOR:
            continue
        of = found.get(id(tensor))
        name, owner, module = (of.name, of.owner, of.module) if of else ("", optimizer, "")
        for key, value in _items(state):
            kind = key if type(key) is str else ""
            for one in _sequence(value) if type(value) in (list, tuple) else (value,):
                if one is not None and walk.kind(type(one)) == TENSOR:
                    _assign(walk, found, one, Role(OPTIMIZER, name, owner, kind, module))


def _trees(walk):
    """Every model that is part of no other, with its modules and their paths in the order of named_modules()."""
    inner = set()
    for module in walk.modules:
        inner.update(id(child) for _, child in _items(_attribute(module, "_modules")) if child is not None and child is not module)
    roots = [m for m in walk.modules if id(m) not in inner]
    seen = set()
    for root in roots + walk.modules:  # those that contain each other come last
        if id(root) not in seen:
            yield root, list(_tree(walk, root, "", seen))


def _tree(walk, module, prefix, seen):
    stack = [(prefix, module)]
    while stack:
        prefix, module = stack.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        yield prefix, module
        children = [(k, c) for k, c in _items(_attribute(module, "_modules")) if type(k) is str and c is not None]
        stack.extend((f"{prefix}.{k}" if prefix else k, c) for k, c in reversed(children))


def _attribute(o, name):
    space = _names.instance_dict(o)
    return space.get(name) if type(space) is dict else None


def _items(space):
    try:
        return list(dict.items(space))
    except TypeError:
        return []


def _sequence(value):
    return value if type(value) in (list, tuple) else ()
