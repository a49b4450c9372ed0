"""Puts every storage that a walk found under one holder, and holders that differ by an index only together: feats[*]."""
import bisect
import re

from . import _roles
from ._names import ATTRIBUTE, INDEX, KEY, Names, bound_at, spell
from ._walk import FRAMES, GRAPH, LIBRARY, SCRIPT, SESSION, TENSOR, UNREACHED, Root, _NAME, _VARS

KEYS = 8  # more keys of one dict than that are told with a star
GRAPHS = 8  # graphs that keep each other, on the way to a variable
ALSO = 3  # further names told of a holder
NUMBER = re.compile(r"(^|\.)\d+(?=\.|$)")

_ORDER = {_roles.PARAMETER: 0, _roles.GRADIENT: 1, _roles.OPTIMIZER: 2, _roles.BUFFER: 3}


class Storage:
    __slots__ = ("device", "address", "size", "order", "tensor", "node", "rank", "role", "whole")

    def __init__(self, device, address, size):
        self.device, self.address, self.size, self.order = device, address, size, None
        self.tensor = self.node = self.role = None
        self.rank, self.whole = UNREACHED, False


def describe(walk, kind, blocks):
    """Devices and holders, as they stand in the file."""
    found = _storages(walk, kind, _roles.roles(walk))
    named = _Grouper(walk, Names(walk), found)
    holders = named.holders()
    return _devices(walk.torch, kind, found, blocks), holders


def _devices(torch, kind, found, blocks):
    devices = {}
    for s in found:
        devices.setdefault(s.device, []).append(s)
    out = []
    for device in sorted(devices):
        held = sum(s.size for s in devices[device])
        allocated = held
        if blocks is not None and kind == "cuda":
            sizes = {address: size for (d, address), size in blocks.items() if d == device}
            starts = sorted(sizes)
            hit = {starts[i] for s in devices[device] if (i := bisect.bisect_right(starts, s.address) - 1) >= 0 and s.address < starts[i] + sizes[starts[i]]}
            held, allocated = sum(sizes[a] for a in hit), sum(sizes.values())
        out.append({"device": device, "allocated": allocated, "named": held})
    return out


def _storages(walk, kind, roles):
    """All storages on devices of a kind, each with the best of what reaches it."""
    look, found = _Looker(walk.torch, kind), {}
    for n, (tensor, rank) in enumerate(walk.tensors):
        role = roles.get(id(tensor))
        for device, address, size, whole in look.storages(tensor):
            order = (0, _ORDER[role.role], 0, n) if role else (1, rank, not whole, n)
            _offer(found, device, address, size, order, tensor=tensor, rank=rank, role=role, whole=whole)
    for n, (node, tensor) in enumerate(walk.saved):
        role = roles.get(id(tensor))
        for device, address, size, whole in look.storages(tensor):
            order = (0, _ORDER[role.role], 0, n) if role else (1, GRAPH, 0, n)
            _offer(found, device, address, size, order, tensor=tensor, node=node, rank=GRAPH, role=role, whole=whole)
            if (s := found[device, address]).node is None:
                s.node = node
    for storage in walk.storages:
        for device, address, size in look.storage(storage):
            _offer(found, device, address, size, (1, LIBRARY, 1, 0), tensor=storage, rank=LIBRARY, role=None, whole=True)
    return list(found.values())


def _offer(found, device, address, size, order, node=None, **what):
    s = found.get((device, address))
    if s is None:
        s = found[device, address] = Storage(device, address, size)
    if s.order is None or order < s.order:
        s.order = order
        s.tensor, s.rank, s.role, s.whole = what["tensor"], what["rank"], what["role"], what["whole"]
        if node is not None:
            s.node = node


class _Looker:
    """Where tensors lie, by PyTorch's own functions; subclasses' are never called."""

    def __init__(self, torch, kind):
        base = torch._C.TensorBase
        self.torch, self.kind = torch, kind
        self.storage_of, self.device, self.layout = base.untyped_storage, base.__dict__["device"].__get__, base.__dict__["layout"].__get__
        self.numel, self.element = base.numel, base.element_size
        s = torch._C.StorageBase
        self.pointer, self.bytes = s.data_ptr, s.nbytes
        self.parts = {torch.sparse_coo: (base._indices, base._values)}
        for layout, names in (("sparse_csr", ("crow_indices", "col_indices")), ("sparse_csc", ("ccol_indices", "row_indices")),
                              ("sparse_bsr", ("crow_indices", "col_indices")), ("sparse_bsc", ("ccol_indices", "row_indices"))):
            if hasattr(torch, layout):
                self.parts[getattr(torch, layout)] = tuple(getattr(base, n) for n in names) + (base.values,)

    def storages(self, tensor):
        """(device, address, bytes, whether this tensor is all of it) of each storage."""
        try:
            device = self.device(tensor)
            if device.type != self.kind:
                return
            layout = self.layout(tensor)
            if layout is self.torch.strided:
                storage = self.storage_of(tensor)
                address, size = self.pointer(storage), self.bytes(storage)
                if address and size:
                    yield device.index or 0, address, size, self.numel(tensor) * self.element(tensor) >= size
                return
            for part in self.parts.get(layout, ()):
                yield from self.storages(part(tensor))
        except Exception:  # a tensor without memory of its own: fake, functional, a wrapper
            return

    def storage(self, storage):
        try:
            device = storage.device
            if device.type == self.kind and self.pointer(storage) and self.bytes(storage):
                yield device.index or 0, self.pointer(storage), self.bytes(storage)
        except Exception:
            return


class _Grouper:
    def __init__(self, walk, names, storages):
        self.walk, self.names, self.storages = walk, names, storages
        self.inputs = _arguments(walk)
        self.modules = _modules_of_nodes(walk, storages)

    def holders(self):
        groups = {}
        for s in self.storages:
            self._put(groups, s)
        out = []
        for key, members in self._split(groups):
            out.append(self._holder(key, members))
        out.sort(key=lambda h: -h["bytes"])
        return out

    def _put(self, groups, s):
        """Find the group of a storage: its role, the variable, and the shape of the way from it."""
        role, kind, op, module, own = self._role(s)
        target = s.tensor
        if s.role is not None:
            target = s.role.owner
        elif role == "saved":
            target = self.walk.hang[id(s.node)]
        way = self.names.best(target)
        if way and way[0].rank == GRAPH and role == "variable":  # a hook or a custom Function keeps it with a node
            s.node, role = way[0].kind, "saved"
            op, module = _NAME(type(s.node)), self.modules.get(id(s.node), "")
            own, target = module, self.walk.hang[id(s.node)]
            way = self.names.best(target)
        for _ in range(GRAPHS):  # a graph that hangs from a tensor which another graph keeps
            if not way or way[0].rank != GRAPH:
                break
            target = self.walk.hang[id(way[0].kind)]
            way = self.names.best(target)
        root, fragments = way if way and way[0].rank != GRAPH else (None, [])
        if role == "variable" and (root is None or s.rank == UNREACHED):
            role, of = "temporary", self.walk.garbage.get(id(s.tensor))
            kind = f"objects that no name reaches ({of}): a reference cycle not yet collected, or kept by C++" if of else ""
        elif role == "variable" and root.rank == LIBRARY and root.place is None:
            role, kind = "library", root.kind
        shape = tuple(f if f[0] == ATTRIBUTE else (f[0], "*") for f in fragments)
        rootkey = (root.name, root.place[:3] if root.place else None) if root else None
        groups.setdefault((s.device, role, rootkey, shape, kind, op, NUMBER.sub(r"\1*", module)), []).append((s, root, fragments, own, target))

    def _role(self, s):
        """Role, kind, operation, module and own name of a storage."""
        if s.role is not None:
            name = s.role.name
            if not name:
                way = self.names.best(s.role.owner)
                name = spell(*way) if way else "?"
            return s.role.role, s.role.kind, "", "", name
        if s.node is not None and s.rank == GRAPH:
            module = self.modules.get(id(s.node), "")
            return "saved", "", _NAME(type(s.node)), module, module
        if s.whole and (id(s.tensor) in self.inputs or s.node is not None and s.rank == SCRIPT and self._is_batch(s.node, s.tensor)):
            return "input", "", "", "", ""
        return "variable", "", "", "", ""

    def _is_batch(self, node, tensor):
        """Whether a tensor that a graph needs is what a step was given: a leaf without gradient, in a variable or one container of one."""
        leaf = self.walk.is_leaf(tensor) and not self.walk.torch._C.TensorBase.__dict__["requires_grad"].__get__(tensor)
        way = self.names.best(tensor) if leaf and self._saved_as_leaf(node, tensor) else None
        return bool(way) and (not way[1] or len(way[1]) == 1 and self._few(tensor))

    def _few(self, tensor):
        """Whether a tensor lies in a container of few."""
        holder = self.walk.parent.get(id(tensor))
        return type(holder) in (list, tuple, dict) and len(holder) <= 16

    def _saved_as_leaf(self, node, tensor):
        """Whether the graph has a tensor as something that nothing computed: a detached activation it has with what computed it."""
        pointer = self.walk.torch._C.TensorBase.data_ptr
        space = _VARS(type(node))
        for name in list(space):
            try:
                if name.startswith("_saved_") and space["_raw" + name].__get__(node).unpack_hook is None:
                    value = space[name].__get__(node)
                    if self.walk.kind(type(value)) == TENSOR and pointer(value) == pointer(tensor):
                        return self.walk.grad_fn(value) is None
            except Exception:
                continue
        return False

    def _split(self, groups):
        """Keys of dicts are told apart as long as they are few."""
        for key, members in groups.items():
            keys = {tuple(f for f in m[2] if f[0] == KEY) for m in members}
            if len(keys) == 1 or len(keys) > KEYS or key[1] in _ORDER:
                yield key, members
                continue
            for one in keys:
                yield key, [m for m in members if tuple(f for f in m[2] if f[0] == KEY) == one]

    def _holder(self, key, members):
        device, role, _, _, kind, op, module = key
        members.sort(key=lambda m: m[0].address)
        storages = [m[0] for m in members]
        first, root = members[0], members[0][1]
        sizes = [s.size for s in storages]
        addresses = [storages[0].address] + [b.address - a.address for a, b in zip(storages, storages[1:])]
        h = {"device": device, "role": role, "bytes": sum(sizes), "count": len(members), "name": self._name(members)}
        if root is not None:
            place = _place(root)
            if place:
                h["in"] = place
            h["type"] = getattr(root, "bound", "")
            if root.frame:
                h["frame"] = root.frame
        if role in ("variable", "saved", "input"):
            if role == "variable" and len(members) > 1:
                ordered = sorted(members, key=lambda m: _numbers(m[2]))
                h["first"], h["last"] = spell(ordered[0][1], ordered[0][2]), spell(ordered[-1][1], ordered[-1][2])
            also = self._also(role, members)
            if also:
                h["also"] = also
        for name, value in (("kind", kind), ("op", op), ("module", module)):
            if value:
                h[name] = value
        own = [m[3] for m in members]
        if any(own) and (role != "saved" or len(set(own)) > 1):
            h["names"] = own
        elif role == "saved" and own[0]:
            h["module"] = own[0]
        h["addresses"], h["sizes"] = addresses, sizes if len(set(sizes)) > 1 else sizes[:1]
        return h

    def _name(self, members):
        """The name of all: what differs becomes a star."""
        root, fragments = members[0][1], members[0][2]
        if root is None:
            return ""
        common = []
        for i, (kind, text) in enumerate(fragments):
            same = all(m[2][i] == (kind, text) for m in members)
            common.append((kind, text if same else "*"))
        return spell(root, common)

    def _also(self, role, members):
        """Further names that keep the same alive: variables, and graphs that need it."""
        out, root = [], members[0][1]
        for s, _, _, _, target in members[:2]:
            for other, fragments in self.names.ways(target)[1:]:
                inner = root is not None and other.thread == root.thread and other.depth > root.depth and root.rank == SCRIPT
                if not inner and other.rank != FRAMES and other.name and (root is None or other.name != root.name or other.place != root.place):
                    self._tell(out, spell(other, [(k, "*" if k == INDEX else t) for k, t in fragments]), _place(other))
            if role == "variable" and s.node is not None:
                self._tell_graph(out, self.walk.hang.get(id(s.node)), s, root)
            for tensor in self.walk.merged.get(id(target), ()) if role == "saved" else ():
                self._tell_graph(out, tensor, s, root)
        return out[:ALSO]

    def _tell_graph(self, out, tensor, s, root):
        way = self.names.best(tensor) if tensor is not None and tensor is not s.tensor else None
        if way and way[0].rank <= SESSION and (root is None or (way[0].name, way[0].place) != (root.name, root.place)):
            self._tell(out, "the graph of " + spell(way[0], [(k, "*" if k == INDEX else t) for k, t in way[1]]), _place(way[0]))

    @staticmethod
    def _tell(out, name, place):
        entry = {"name": name, **({"in": place} if place else {})}
        if entry not in out:
            out.append(entry)


def _place(root):
    """Where a variable is bound: its file, line and function."""
    if root.place is None:
        return None
    file, line, function, code = root.place
    if code is not None:
        line = bound_at(code, root.name, line)
    return {"file": file, **({"line": line} if line else {}), **({"function": function} if function else {})}


def _numbers(fragments):
    return [int(t) if t.isdigit() else -1 for k, t in fragments if k == INDEX]


def _arguments(walk):
    """The ids of tensors that the outermost module call that runs was given."""
    for frame in reversed(list(walk.running.values())):  # outermost first
        code = frame.f_code
        if code.co_name in ("_call_impl", "_wrapped_call_impl") and code.co_filename.endswith("module.py"):
            values = dict(_locals(frame))
            given = [*(values.get("args") or ()), *dict(values.get("kwargs") or {}).values()]
            return {id(t) for value in given for t in _flat(walk, value)}
    return set()


def _locals(frame):
    from ._walk import local_variables

    return local_variables(frame)


def _flat(walk, value):
    if type(value) in (list, tuple):
        values = value[:64]
    elif type(value) is dict:
        values = list(value.values())[:64]
    else:
        values = (value,)
    return [v for v in values if walk.kind(type(v)) == TENSOR]


def _modules_of_nodes(walk, storages):
    """The module of each node: of one that uses a parameter, that parameter's; of one between two of these, what both are part of.

    Nodes are numbered in the order of the forward pass (https://github.com/pytorch/pytorch/blob/v2.11.0/torch/csrc/autograd/node.h, sequence_nr).
    """
    owners = {}
    for s in storages:
        if s.role is not None and s.role.role == _roles.PARAMETER:
            owners[id(s.tensor)] = s.role.module
    ordered = []
    for node in walk.nodes:
        try:
            ordered.append((walk_number(node), node, _parameter_module(walk, node, owners)))
        except Exception:
            continue
    ordered.sort(key=lambda entry: entry[0])
    out, before, pending = {}, None, []
    for _, node, module in ordered:
        if module is None:
            pending.append(node)
            continue
        for other in pending:
            out[id(other)] = module if before is None else _common(before, module)
        out[id(node)], before, pending = module, module, []
    return out


def walk_number(node):
    return type(node)._sequence_nr(node)


def _parameter_module(walk, node, owners, depth=3):
    """The module whose parameter a node uses itself, or through casts and transposes of it."""
    getters = walk.getters.get(id(type(node)))
    if getters is None:
        return None
    try:
        following = walk.function_next(node) if getters["next"] is None else getters["next"](node)
    except Exception:
        return None
    for child, _ in following:
        if child is None:
            continue
        of = walk.getters.get(id(type(child)))
        if of is not None and of["variable"] is not None:
            module = owners.get(id(of["variable"](child)))
            if module is not None:
                return module
        elif depth and len(following) > 1 and _NAME(type(child)) in ("TBackward0", "ToCopyBackward0", "TransposeBackward0", "PermuteBackward0", "ViewBackward0"):
            module = _parameter_module(walk, child, owners, depth - 1)
            if module is not None:
                return module
    return None


def _common(a, b):
    parts = []
    for x, y in zip(a.split("."), b.split(".")):
        if x != y:
            break
        parts.append(x)
    return ".".join(parts)
