"""Walks a process's Python objects, from frames and modules to tensors, and from tensors through autograd graphs to what they save.

No code of the program's runs: objects are followed by what Python's garbage collector sees in them (gc.get_referents), dictionaries and
attributes are read through the base types' own functions, and types are told apart by identity, never by __class__, comparison or hash. What other
objects point to weakly is not followed. The walk ends at its deadline or after so many objects, wherever it is; what was found until then stands.
"""
import functools
import gc
import sys
import time
import types
import weakref
from collections import deque

from . import _frames

# What an object is to the walk, by its type.
LEAF, PLAIN, TENSOR, STORAGE, NODE, CLASS, MODULE, FRAME, NN, OPTIMIZER, RAW, FUNCTION = range(12)

# How good a name is: the script's variables, then what hangs from them, then libraries'.
SCRIPT, SESSION, GRAPH, FRAMES, LIBRARY, UNREACHED = range(6)

BIG = 4096  # of a container of more elements the tensors come at once, the rest when everything else was seen
HUGE = 100_000  # one of more elements waits as a whole
EVERY = 256  # objects between two looks at the clock
GARBAGE = 2000  # tensors without a name whose holders are looked for
PARENTS = 4  # ways to an object that are remembered, beside the first

_MRO = type.__dict__["__mro__"].__get__
_NAME = type.__dict__["__name__"].__get__
_VARS = type.__dict__["__dict__"].__get__
_NAMESPACE = types.ModuleType.__dict__["__dict__"].__get__

_LEAVES = (
    type(None), bool, int, float, complex, str, bytes, bytearray, range, type(Ellipsis), type(NotImplemented), types.CodeType, types.BuiltinFunctionType,
    types.WrapperDescriptorType, types.MethodWrapperType, types.MethodDescriptorType, types.ClassMethodDescriptorType, types.GetSetDescriptorType,
    types.MemberDescriptorType, weakref.ref, weakref.ProxyType, weakref.CallableProxyType, type(sys.flags), type(sys.version_info), memoryview,
)


class Root:
    """Where a way begins: a variable of a frame, of a module, of a class, of a notebook."""

    __slots__ = ("name", "place", "rank", "thread", "depth", "bound", "kind", "frame")

    def __init__(self, name, place, rank, thread=0, depth=0, kind="", frame=""):
        self.frame = frame  # "exception" where a traceback keeps the frame of this variable
        self.name, self.place, self.rank, self.thread, self.depth, self.kind = name, place, rank, thread, depth, kind


class Walk:
    """One walk; torch is the module, deadline a time.monotonic() value."""

    def __init__(self, torch, deadline, limit, hooked):
        self.torch, self.deadline, self.limit, self.hooked = torch, deadline, limit, hooked
        self.kinds = {**{id(t): LEAF for t in _LEAVES}, id(types.FunctionType): FUNCTION, id(torch.Tensor): TENSOR, id(torch.nn.Parameter): TENSOR}
        self.parent = {}  # id of an object: the object or Root it was first reached from
        self.more = {}  # id of an object: further ones
        self.queue, self.waiting = deque(), deque()
        self.classes, self.namespaces = [], {}
        self.tensors, self.storages, self.modules, self.optimizers, self.frames = [], [], [], [], []
        self.nodes, self.node_ids, self.hang, self.merged = [], set(), {}, {}
        self.saved = []  # (node, tensor) of what graphs keep for backward
        self.kept = []  # keeps what PyTorch makes for us alive, so that its id stays its own
        self.running = {}
        self.stopped, self.objects, self.rank = "", 0, SCRIPT
        self.garbage = {}  # id of a tensor that no name reaches: the type of what holds it
        base = torch._C._FunctionBase.__dict__
        self.function_next = base["next_functions"].__get__
        self.function_saved = base["_raw_saved_tensors"].__get__
        self.getters = {}
        self.grad = torch._C.TensorBase.__dict__["grad"].__get__
        self.grad_fn = torch._C.TensorBase.__dict__["grad_fn"].__get__
        self.is_leaf = torch._C.TensorBase.__dict__["is_leaf"].__get__

    # Types -------------------------------------------------------------------------------------------------------------------

    def kind(self, t):
        """What objects of a type are; a type is looked at once."""
        found = self.kinds.get(id(t))
        if found is None:
            found = self.kinds[id(t)] = self._classify(t)
        return found

    def _classify(self, t):
        torch = self.torch
        mro = {id(base) for base in _MRO(t)}
        for base, kind in (
            (weakref.ref, LEAF), (str, LEAF), (int, LEAF), (float, LEAF), (bytes, LEAF), (torch.Size, LEAF), (torch.dtype, LEAF), (torch.device, LEAF),
            (torch.Generator, LEAF), (torch.layout, LEAF), (torch.memory_format, LEAF), (type, CLASS), (types.ModuleType, MODULE), (types.FrameType, FRAME),
            (torch._C.TensorBase, TENSOR), (torch.UntypedStorage, STORAGE), (torch._C._FunctionBase, NODE), (torch.nn.Module, NN),
            (torch.optim.Optimizer, OPTIMIZER), (torch._C._autograd.SavedTensor, RAW),
        ):
            if id(base) in mro:
                return kind
        return NODE if _is_cpp_node(t) else PLAIN

    # Objects -----------------------------------------------------------------------------------------------------------------

    def start(self, value, root):
        """A way begins at a root."""
        if self.kind(type(value)) != LEAF:
            self._reach(value, root)

    def _reach(self, value, parent):
        i = id(value)
        if i in self.parent:
            ways = self.more.setdefault(i, [])
            if len(ways) < PARENTS:
                ways.append(parent)
            return
        self.parent[i] = parent
        self.queue.append(value)

    def run(self, rank):
        """Follow everything reachable from what was started."""
        self.rank = rank
        expand = {
            PLAIN: self._follow, TENSOR: self._tensor, STORAGE: self.storages.append, NODE: self._node, CLASS: self.classes.append, MODULE: self._module,
            FRAME: self._frame, NN: self._nn, OPTIMIZER: self._optimizer, RAW: _ignore, LEAF: _ignore, FUNCTION: self._function,
        }
        queue, kinds = self.queue, self.kinds
        while queue and not self.stopped:
            for _ in range(min(EVERY, len(queue))):
                o = queue.popleft()
                kind = kinds.get(id(type(o)))
                if kind == PLAIN:
                    self._follow(o)
                elif kind != LEAF:
                    expand[self.kind(type(o))](o)
            self.check(EVERY)

    def check(self, objects=0):
        self.objects += objects
        if time.monotonic() > self.deadline:
            self.stopped = "time"
        elif len(self.parent) > self.limit:
            self.stopped = "objects"

    def _follow(self, o, refs=None):
        refs = gc.get_referents(o) if refs is None else refs
        if len(refs) > HUGE:
            self.waiting.append((o, refs, 0, self.rank))
            return
        if len(refs) > BIG:
            refs = self._sift(o, refs)
        parent, kinds, queue = self.parent, self.kinds, self.queue
        for r in refs:
            t = type(r)
            if kinds.get(id(t)) == LEAF or (t is tuple or t is dict) and not gc.is_tracked(r):  # one that is not tracked holds leaves only
                continue
            i = id(r)
            if i not in parent:
                parent[i] = o
                queue.append(r)
            elif i not in self.namespaces:
                ways = self.more.setdefault(i, [])
                if len(ways) < PARENTS:
                    ways.append(o)

    def _sift(self, o, refs):
        """Of a big container: nothing where all is leaves, its tensors now, the rest when all else is done."""
        present = set(map(id, map(type, refs)))
        seen = {id(type(r)): type(r) for r in refs[:64]}
        for r in refs if len(present) > len(seen) else ():
            if id(type(r)) not in seen:
                seen[id(type(r))] = type(r)
                if len(seen) == len(present):
                    break
        of = {i: self.kind(t) for i, t in seen.items()}
        if all(k == LEAF for k in of.values()):
            return ()
        tensors = {i for i, k in of.items() if k == TENSOR}
        rest = {i for i, k in of.items() if k not in (LEAF, TENSOR)}
        if rest:
            self.waiting.append((o, [r for r in refs if id(type(r)) in rest], 0, self.rank))
        return [r for r in refs if id(type(r)) in tensors] if tensors else ()

    def big(self, until):
        """The elements of big containers, a piece of each in turn, until a time."""
        while self.waiting and not self.stopped and time.monotonic() < until:
            o, refs, start, rank = self.waiting.popleft()
            if start + BIG < len(refs):
                self.waiting.append((o, refs, start + BIG, rank))
            self._follow(o, refs[start:start + BIG])
            self.run(rank)
            self.graphs()

    def _function(self, function):
        """Its closure, defaults and attributes; asking for its __dict__ would make one."""
        self._follow(function, [r for r in gc.get_referents(function) if type(r) is tuple or type(r) is dict])

    def _module(self, module):
        space = _NAMESPACE(module)
        if id(space) not in self.namespaces:  # one that sys.modules does not list
            self.namespaces[id(space)] = None
            name = space.get("__name__")
            self.parent[id(space)] = Root(name if type(name) is str else "?", None, LIBRARY)
            self._follow(space)

    def _frame(self, frame):
        self.frames.append(frame)
        if id(frame) not in self.running:
            for _, value in local_variables(frame):
                self.start(value, frame)

    def _nn(self, module):
        self.modules.append(module)
        self._follow(module)

    def _optimizer(self, optimizer):
        self.optimizers.append(optimizer)
        self._follow(optimizer)

    def _tensor(self, tensor):
        self.tensors.append((tensor, self.rank))
        self._follow(tensor)
        if self.is_leaf(tensor):
            grad = self.grad(tensor)
            if grad is not None:
                self.kept.append(grad)
                self._reach(grad, tensor)

    # Graphs ------------------------------------------------------------------------------------------------------------------

    def graphs(self):
        """From tensors through what computed them to what is saved for backward."""
        done = getattr(self, "_graphed", 0)
        self._graphed = len(self.tensors)
        level = []
        for tensor, _ in self.tensors[done:]:
            try:
                node = self.grad_fn(tensor)
            except RuntimeError:
                continue
            if node is not None:
                self._reach_node(node, tensor, tensor, level)
        while level and not self.stopped:
            following = []
            for n, node in enumerate(level):
                self._open(node, following)
                if n % EVERY == 0:
                    self.check(EVERY)
                    if self.stopped:
                        break
            level = following
        self.run(GRAPH)

    def _reach_node(self, node, tensor, parent, level):
        i = id(node)
        if i in self.node_ids:
            other = self.hang[i]
            if other is not tensor:
                ways = self.merged.setdefault(id(other), [])
                if len(ways) < PARENTS and not any(w is tensor for w in ways):
                    ways.append(tensor)
            return
        self.node_ids.add(i)
        self.nodes.append(node)
        self.hang[i] = tensor
        self.parent.setdefault(i, parent)
        level.append(node)

    def _node(self, node):
        """A node found among Python's objects (a custom Function's ctx, grad_fn kept in a variable)."""
        if id(node) not in self.node_ids:
            level = []
            self._reach_node(node, node, self.parent.get(id(node)), level)
            while level and not self.stopped:
                following = []
                for n in level:
                    self._open(n, following)
                level = following
                self.check(EVERY)

    def _open(self, node, level):
        own = self.kind(type(node)) == NODE and id(self.torch._C._FunctionBase) in {id(b) for b in _MRO(type(node))}
        getters = self._getters(type(node), own)
        tensor = self.hang[id(node)]
        try:
            following = self.function_next(node) if own else getters["next"](node)
        except Exception:
            following = ()
        for child, _ in following:
            if child is not None:
                self._reach_node(child, tensor, node, level)
        for get in getters["saved"]:
            try:
                value = get(node)
            except Exception:  # freed already
                continue
            self._saved(node, value)
        if getters["variable"] is not None:
            variable = getters["variable"](node)
            self.kept.append(variable)
            self._reach(variable, node)
        if own:
            self._follow(node)

    def _saved(self, node, value):
        if type(value) is tuple:
            for one in value:
                self._saved(node, one)
            return
        kind = self.kind(type(value))
        if kind == RAW:
            if value.unpack_hook is None:
                value = value.data
                kind = self.kind(type(value))
            else:  # packed by a hook of the program's: calling it would run its code, and may compute a layer anew
                for part in (value.data, value.unpack_hook):
                    self.kept.append(part)
                    self.start(part, node)
                return
        if kind == TENSOR:
            self.kept.append(value)
            self.saved.append((node, value))

    def _getters(self, t, own):
        found = self.getters.get(id(t))
        if found is None:
            space = _VARS(t)
            raw = hasattr(self.torch._C._autograd.SavedTensor, "unpack_hook")  # not up to PyTorch 2.9
            prefix = "_raw_saved_" if raw else "_saved_"
            saved = [space[k].__get__ for k in list(space) if k.startswith(prefix)] if raw or not self.hooked() else []
            if own:
                saved = [self.function_saved if raw else self.torch._C._FunctionBase.__dict__["saved_tensors"].__get__] if raw or not self.hooked() else []
            variable = space["variable"].__get__ if "variable" in space and not own else None
            following = space["next_functions"].__get__ if "next_functions" in space else None
            found = self.getters[id(t)] = {"saved": saved, "next": following, "variable": variable}
        return found

    # Garbage -----------------------------------------------------------------------------------------------------------------

    def unreached(self):
        """Tensors that Python knows and no name reaches: values of a line that runs, garbage in cycles, objects that only C++ holds."""
        if self.stopped:
            return
        seen, kinds, parent = self.parent, self.kinds, self.parent
        ours = {id(t) for t in self.kept}
        found = [o for o in gc.get_objects() if kinds.get(id(type(o))) == TENSOR and id(o) not in seen and id(o) not in ours]
        self.check()
        self._garbage(found)
        for tensor in found:
            parent[id(tensor)] = None
            self.tensors.append((tensor, UNREACHED))
            self.kept.append(tensor)
        if found and not self.stopped:
            self.graphs()

    def _garbage(self, found):
        """Which types of objects hold tensors that no name reaches: these are garbage that waits for a collection."""
        if not found or self.stopped:
            return
        wanted = {id(t) for t in found}
        for holder in gc.get_referrers(*found[:GARBAGE]):
            if holder is found or id(holder) in self.parent or type(holder) in (types.FrameType, tuple):
                continue
            owner = next((o for o in gc.get_referrers(holder) if type(o) is not types.FrameType), None) if type(holder) in (dict, list) else holder
            for child in gc.get_referents(holder):
                if id(child) in wanted:
                    self.garbage[id(child)] = _NAME(type(owner if owner is not None else holder))
            self.check()
            if self.stopped:
                return


def _ignore(o):
    pass


def _is_cpp_node(t):
    """Whether a type is one that PyTorch makes for a node of a graph: it has next_functions and metadata, in C."""
    space = _VARS(t)
    return type(space.get("next_functions")) is types.GetSetDescriptorType and "_sequence_nr" in space or _NAME(t) in ("AccumulateGrad",)


def local_variables(frame):
    """The variables of a frame, as pairs. Before Python 3.13 reading them leaves a copy in the frame; it is emptied, unless the program has it too."""
    space = frame.f_locals
    pairs = list(space.items())
    optimized = frame.f_code.co_flags & 1  # a function's: the namespace is a copy, not the namespace itself
    if sys.version_info < (3, 13) and optimized and type(space) is dict and sys.gettrace() is None and sys.getrefcount(space) <= 3:
        space.clear()
    return [(k, v) for k, v in pairs if type(k) is str]


@functools.lru_cache(maxsize=4096)
def is_scripts(name):
    return _frames.is_scripts(name)
