"""Runs a model at further sizes with few of the layers that are alike.

A model runs whole at one size. Where its layers then did the same, one after the other or in turns (every fourth has another attention), it runs at the other sizes with the first
and last of them alone, and what the others would have done is written from those. Operators, arguments and lifetimes of the short run are compared with those of the whole one;
where they differ, the whole model runs.
"""
import contextlib
import re

ENDS = 2  # layers at either end that may be unlike the others
TURNS = 8  # layers after which they repeat, at most
NUMBERED = re.compile(r"(?:(.*?)\.)?(\d+)(?:\.(.*))?$")


class Unlike(Exception):
    """A short run that is not the whole one with fewer layers."""


def layer_of(path):
    """(list, number, rest) of a module in a list of layers; None for others."""
    m = NUMBERED.match(path)
    return (m[1] or "", int(m[2]), m[3] or "") if m else None


class Stack:
    """One list of layers in a run: which nodes belong to each."""

    def __init__(self, name):
        self.name, self.starts, self.end = name, [], 0
        self.regular = True

    def span(self, layer):
        return range(self.starts[layer], self.starts[layer + 1] if layer + 1 < len(self.starts) else self.end)


def stacks(trace):
    """The lists of layers that run once, in order, and not in between each other."""
    out = {}
    for i, node in enumerate(trace.nodes):
        found = layer_of(node["stack"][-1][1]) if node["stack"] else None
        if found is None:
            continue
        s = out.setdefault(found[0], Stack(found[0]))
        if found[1] == len(s.starts):
            s.starts.append(i)
        elif found[1] != len(s.starts) - 1:
            s.regular = False
        s.end = i + 1
    found = [s for s in out.values()]
    return [s for s in found if s.regular and not any(o is not s and o.starts and s.starts and o.starts[0] < s.end and s.starts[0] < o.end for o in found)]


class Shorter:
    """A whole run, and which of its layers can be left out."""

    def __init__(self, torch, model, whole):
        self.torch, self.model, self.whole = torch, model, whole
        self.names = {v: name for v, _, name in whole.fixed}
        self.maker = {}  # value -> (node, which of its results)
        for i, node in enumerate(whole.nodes):
            for k, v in enumerate(node["outs"]):
                self.maker.setdefault(v, (i, k))
        self.dropped = {}  # stack -> (first layer left out, how many, how many turns)
        for s in stacks(whole):
            if isinstance(self.module(s.name), torch.nn.ModuleList) and len(self.module(s.name)) == len(s.starts):
                self.find(s)

    def module(self, name):
        try:
            return self.model.get_submodule(name)
        except AttributeError:
            return None

    def find(self, s):
        depth = len(s.starts)
        if depth < 2 * ENDS + 3:
            return
        signs = [self.sign(s, layer) for layer in range(ENDS, depth - ENDS)]
        for turns in range(1, TURNS + 1):
            first = ENDS + turns
            count = (depth - ENDS - 1 - first) // turns * turns
            if count <= 0:
                return
            if all(a == b for a, b in zip(signs, signs[turns:])):
                self.dropped[s] = (first, count, turns)
                return

    def sign(self, s, layer):
        """What a layer does, in words that do not depend on where it stands."""
        mine, before = s.span(layer), s.span(layer - 1)
        values = self.whole.values

        def place(v):
            if v < 0:
                return v
            if v in self.names:
                at = layer_of(self.names[v])
                return ("held", at[1] - layer, at[2]) if at and at[0] == s.name else ("fixed", v)
            i, k = self.maker.get(v, (-1, 0))
            for word, span in (("mine", mine), ("before", before)):
                if i in span:
                    return word, i - span.start, k
            return "outside", v

        def content(kind, c):
            if kind == "as_tensor":
                return place(c)
            if kind == "as_optional_tensors":
                return tuple(map(place, c))
            return tuple(c) if isinstance(c, list) else c

        out = []
        for i in mine:
            n = self.whole.nodes[i]
            out.append((n["target"], n["grad"], n["autocast"], tuple(map(place, n["dies"])), len(n["stack"]),
                        tuple((a, kind, content(kind, c)) for a, (kind, c) in n["args"]),
                        tuple((values[v][0], tuple(values[v][1]), tuple(values[v][2])) if v >= 0 else None for v in n["outs"])))
        return out

    @contextlib.contextmanager
    def shortened(self):
        """The model without the layers that are left out."""
        undo = []
        try:
            for s, (first, count, _) in self.dropped.items():
                parent, _, name = s.name.rpartition(".")
                owner, layers = self.model.get_submodule(parent), self.module(s.name)
                owner._modules[name] = self.torch.nn.ModuleList([m for i, m in enumerate(layers) if not first <= i < first + count])
                undo.append((owner, name, layers))
            yield
        finally:
            for owner, name, layers in undo:
                owner._modules[name] = layers

    def stand_ins(self):
        """For each node of the whole run: itself, or the one of a layer that is kept which does the same."""
        out = list(range(len(self.whole.nodes)))
        for s, (first, count, turns) in self.dropped.items():
            for layer in range(first, first + count):
                like = s.span(first - turns + (layer - first) % turns)
                for i, j in zip(s.span(layer), like):
                    out[i] = j
        return out

    def written(self, short):
        """The run of the whole model at the size of a short one."""
        whole, like = self.whole, self.stand_ins()
        kept = [i for i, j in enumerate(like) if i == j]
        if len(kept) != len(short.nodes):
            raise Unlike("another number of operators")
        at = dict(zip(kept, short.nodes))
        if [name for _, name in whole.inputs] != [name for _, name in short.inputs]:
            raise Unlike("other inputs")
        same = {v: w for (v, _), (w, _) in zip(whole.inputs, short.inputs)}  # value of the whole run -> of the short one
        for i, j in enumerate(like):
            a, b = whole.nodes[i], at[j]
            if a["target"] != b["target"] or len(a["outs"]) != len(b["outs"]) or len(a["args"]) != len(b["args"]):
                raise Unlike("another operator")
            same.update(zip(a["outs"], b["outs"]))
        nodes = []
        for i, j in enumerate(like):
            a, b = whole.nodes[i], at[j]
            args = [self.argument(x, y, same, i == j) for x, y in zip(a["args"], b["args"])]
            if i == j and [same.get(v, v) for v in a["dies"]] != b["dies"]:
                raise Unlike("another lifetime")
            nodes.append({**a, "args": args})
        if {same.get(v, v) for v in whole.alive if self.maker.get(v, (kept[0],))[0] in at} != set(short.alive):
            raise Unlike("other results")
        out = type(whole)()
        out.__dict__.update(whole.__dict__)
        out.nodes = nodes
        out.values = [short.values[same[v]] if same.get(v, -1) >= 0 else value for v, value in enumerate(whole.values)]
        return out

    def argument(self, x, y, same, check):
        """An argument of the whole run with the numbers of the short one."""
        (name, (kind, content)), (other, (as_kind, now)) = x, y
        if name != other or kind != as_kind:
            raise Unlike("other arguments")
        tensors = [content] if kind == "as_tensor" else content if kind == "as_optional_tensors" else []
        if not tensors:
            return name, (kind, now)
        if check:
            for v, w in zip(tensors, [now] if kind == "as_tensor" else now):
                if v >= 0 and same.setdefault(v, w) != w:
                    raise Unlike("another tensor")
        return x
