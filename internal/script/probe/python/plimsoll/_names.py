"""Names what a walk reached, as the program would write it: feats["layer3"][4], self.memory[0][1], model.fc.weight.

A name begins where the program has one: a variable of a frame, a global, a variable of a closure or generator that is passed on the way, a class. Like the walk it
runs no code of the program's.
"""
import collections
import dis
import functools
import sys
import types

from ._walk import CLASS, FRAME, GRAPH, LIBRARY, NODE, SCRIPT, Root, _MRO, _NAME, _NAMESPACE, _VARS, is_scripts, local_variables

ATTRIBUTE, INDEX, KEY, NOTHING, OTHER = "attribute", "index", "key", "nothing", "other"
FIELDS = 4  # elements of a tuple whose positions are told apart
HOPS = 96  # steps of a way that are named; a longer one is cut in its middle
REGISTRIES = ("_modules", "_parameters", "_buffers")
_FUNCTION = types.FunctionType.__dict__
_GENERATORS = {id(t): (t.__dict__[frame].__get__, t.__dict__[code].__get__) for t, frame, code in (
    (types.GeneratorType, "gi_frame", "gi_code"), (types.CoroutineType, "cr_frame", "cr_code"), (types.AsyncGeneratorType, "ag_frame", "ag_code"))}


class Names:
    def __init__(self, walk):
        self.walk, self.edges, self.roots = walk, {}, {}

    def ways(self, o, limit=4):
        """The ways to an object, best first, as pairs of a root and its fragments; ways over further holders of what leads to it too."""
        found, seen = [], set()
        first = self.climb(o)
        if first:
            found.append(first)
        at = o
        for _ in range(4):  # further ways to the object itself, its container, and so on up
            for parent in self.walk.more.get(id(at), ()):
                way = self.climb(o, turn=(id(at), parent))
                if way:
                    found.append(way)
            at = self.walk.parent.get(id(at))
            if at is None or type(at) is Root or id(at) in self.walk.node_ids:
                break
        out = []
        for way in sorted(found, key=lambda w: w[0].rank):
            key = (way[0].name, id(way[0].place) if way[0].place is None else way[0].place[:2], way[0].thread)
            if key not in seen:
                seen.add(key)
                out.append(way)
        return out[:limit]

    def best(self, o):
        """The best way to an object: a root and its fragments, outermost first; None where nothing reaches it."""
        best = self.climb(o)
        for parent in self.walk.more.get(id(o), ()):
            if best and best[0].rank == SCRIPT:
                break
            other = self.climb(o, turn=(id(o), parent))
            if other and (best is None or other[0].rank < best[0].rank):
                best = other
        return best

    def climb(self, o, turn=(None, None)):
        """Go up from an object to its root; at the object with the id turn[0] take the way turn[1]. A root without a name is a node of a graph."""
        parents, fragments, hops = self.walk.parent, [], 0
        while True:
            parent = turn[1] if id(o) == turn[0] else parents.get(id(o))
            hops += 1
            if parent is None or hops > 1_000_000:
                return None
            if type(parent) is Root:
                parent.bound = _NAME(type(o))
                return parent, _tidy(fragments)
            fragment, root = self._step(parent, o)
            if root is not None:
                root.bound = _NAME(type(o))
                return root, _tidy(fragments)
            if fragment[0] != NOTHING and (hops < HOPS):
                fragments.append(fragment)
            if id(parent) == turn[0]:
                return None  # a cycle
            o = parent

    def _step(self, parent, child):
        """The fragment from a parent to a child, or the root where the program has a name of its own for the child."""
        kind = self.walk.kind(type(parent))
        if kind == FRAME:
            root = self._variable(parent, parent.f_code, child, parent.f_lineno)
            if type(self.walk.parent.get(id(parent))) is types.TracebackType:
                root.frame = "exception"
            return None, root
        if kind == CLASS:
            return None, self._class(parent)
        if id(type(parent)) in _GENERATORS:
            frame, code = (get(parent) for get in _GENERATORS[id(type(parent))])
            if frame is not None and is_scripts(code.co_filename):
                return None, self._variable(frame, code, child, frame.f_lineno)
        if type(parent) is types.CellType:
            root = self._closure(parent)
            return ((NOTHING, ""), None) if root is None else (None, root)
        if kind == NODE:
            return None, self._node(parent)
        return self._labels(parent).get(id(child), (OTHER, f"({_NAME(type(parent))})")), None

    def _root(self, name, code, line, rank):
        key = (name, id(code), line)
        if key not in self.roots:
            self.roots[key] = Root(name, (code.co_filename, line, qualified(code), code), rank)
        return self.roots[key]

    def _variable(self, frame, code, child, line):
        name = "?"
        for key, value in local_variables(frame):
            if value is child:
                name = key
                break
        return self._root(name, code, line, SCRIPT if is_scripts(code.co_filename) else LIBRARY)

    def _closure(self, cell):
        closure = self.walk.parent.get(id(cell))
        function = self.walk.parent.get(id(closure))
        if type(closure) is not tuple or type(function) is not types.FunctionType:
            return None
        code = function.__code__
        if not is_scripts(code.co_filename):
            return None
        for name, other in zip(code.co_freevars, closure):
            if other is cell:
                return self._root(name, code, code.co_firstlineno, SCRIPT)
        return None

    def _node(self, node):
        if id(node) not in self.roots:
            self.roots[id(node)] = Root("", None, GRAPH, kind=node)
        return self.roots[id(node)]

    def _class(self, cls):
        if id(cls) not in self.roots:
            file, own = home(cls)
            self.roots[id(cls)] = Root(_NAME(cls), (file, 0, "", None) if own else None, SCRIPT if own else LIBRARY, kind="" if own else file.split(".")[0])
        return self.roots[id(cls)]

    def _labels(self, parent):
        labels = self.edges.get(id(parent))
        if labels is None:
            try:
                labels = self._read(parent)
            except Exception:
                labels = {}
            self.edges[id(parent)] = labels
        return labels

    def _read(self, o):
        t = type(o)
        mro = {id(b) for b in _MRO(t)}
        labels = {}
        if id(dict) in mro:
            owner = self.walk.parent.get(id(o))
            attributes = id(o) in self.walk.namespaces or owner is not None and type(owner) is not Root and (
                instance_dict(owner) is o or self.walk.kind(type(owner)) == CLASS)
            for k, v in list(dict.items(o)):
                labels.setdefault(id(k), (OTHER, "{key}"))
                labels[id(v)] = _key(k, attributes)
        elif id(list) in mro or id(tuple) in mro or id(collections.deque) in mro:
            base = next(b for b in (list, tuple, collections.deque) if id(b) in mro)
            fields = _VARS(t).get("_fields") if base is tuple else None
            for i, v in enumerate(base.__iter__(o)):
                named = type(fields) is tuple and i < len(fields) and type(fields[i]) is str
                fixed = base is tuple and len(o) <= FIELDS  # a position of a small tuple means something
                labels.setdefault(id(v), (ATTRIBUTE, fields[i]) if named else (KEY if fixed else INDEX, str(i)))
        elif t is types.MethodType:
            labels[id(o.__self__)] = (ATTRIBUTE, "__self__")
        elif t is functools.partial:
            labels[id(o.args)], labels[id(o.keywords)] = (ATTRIBUTE, "args"), (ATTRIBUTE, "keywords")
        elif t is types.FunctionType:
            labels[id(o.__defaults__)], labels[id(o.__closure__)] = (ATTRIBUTE, "__defaults__"), (NOTHING, "")
        elif id(self.walk.torch._C.TensorBase) in mro:
            labels.update((id(g), (ATTRIBUTE, "grad")) for g in (self.walk.grad(o),) if g is not None) if self.walk.is_leaf(o) else None
        self._attributes(o, t, labels)
        return labels

    def _attributes(self, o, t, labels):
        space = instance_dict(o)
        if type(space) is dict:
            labels[id(space)] = (NOTHING, "")
            for k, v in list(space.items()):
                if type(k) is str:
                    labels.setdefault(id(v), (ATTRIBUTE, k))
        for base in _MRO(t):
            for name, slot in list(_VARS(base).items()):
                if type(slot) is types.MemberDescriptorType and type(name) is str:
                    try:
                        labels.setdefault(id(slot.__get__(o)), (ATTRIBUTE, name))
                    except AttributeError:
                        pass


def instance_dict(o):
    """An object's __dict__ by the C type's own getter; None where it has none, or its class pretends."""
    for base in _MRO(type(o)):
        getter = _VARS(base).get("__dict__")
        if getter is not None:
            return getter.__get__(o) if type(getter) is types.GetSetDescriptorType else None
    return None


def home(cls):
    """The file of a script's class, or a library's module, and whether it is the script's."""
    module = _VARS(cls).get("__module__")
    found = sys.modules.get(module) if type(module) is str else None
    file = _NAMESPACE(found).get("__file__") if type(found) is types.ModuleType else None
    if module == "__main__" or type(file) is str and is_scripts(file):
        return file if type(file) is str else "__main__", True
    return module if type(module) is str else "?", False


def _key(key, attributes):
    t = type(key)
    if t is str:
        return (ATTRIBUTE, key) if attributes else (KEY, repr(key[:48]).replace("'", '"'))
    if t in (int, bool, float, type(None)):
        return INDEX, repr(key)
    if t is tuple and len(key) < 5 and all(type(k) in (int, str) for k in key):
        return KEY, repr(key)[:48]
    return INDEX, _NAME(t)


def _tidy(fragments):
    """Outermost first, a module's registries left out, repetitions (of a linked list) told once."""
    out, registry = [], False
    for kind, text in reversed(fragments):
        if kind == ATTRIBUTE and text in REGISTRIES:
            registry = True
            continue
        if registry and kind == KEY:
            kind, text = ATTRIBUTE, text.strip('"')
        registry = False
        if len(out) > 1 and out[-1] == out[-2] == (kind, text) and kind == ATTRIBUTE:
            continue
        out.append((kind, text))
    return out


def spell(root, fragments):
    """A name as the program would write it."""
    text = root.name
    for kind, part in fragments:
        text += {ATTRIBUTE: f".{part}", INDEX: f"[{part}]", KEY: f"[{part}]"}.get(kind, part)
    return text


def qualified(code):
    return getattr(code, "co_qualname", code.co_name).replace("<locals>.", "")


@functools.lru_cache(maxsize=1024)
def bound_at(code, name, line):
    """The line where a variable is first bound in a code object; else the given one."""
    variable = name.split(".")[0].split("[")[0]
    if variable in code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]:
        return code.co_firstlineno
    lines, at = dict(dis.findlinestarts(code)), line
    for instruction in dis.get_instructions(code):
        at = lines.get(instruction.offset) or at
        if instruction.opname.startswith("STORE_") and instruction.argval == variable:
            return at
    return line
