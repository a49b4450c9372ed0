"""Answers questions about values while a model runs on tensors without data.

Modelling code asks whether a mask hides anything, or which tokens go to which expert. What follows from the inputs alone is computed on the CPU, from a batch
without padding. What would follow from weights is drawn at random: routers then spread tokens evenly, or, where that is asked for, send all to the same experts.
"""
import ast
import contextlib
import functools
import linecache
import sys

from ._numbers import VALUE

NODE = "_plimsoll_node"
MOST = 1 << 26  # elements computed for an answer
COINS = ("aten.rand.default", "aten.rand_like.default")  # thrown for each layer by models that drop layers: none is dropped, which needs the most memory
PICKS = ("aten.where.self", "aten.max_pool2d.default")  # choose among values, of which most may be the same: computed from what is drawn, not drawn themselves
VIEWS = ("aten.select.int", "aten.slice.Tensor", "aten.view.default", "aten.reshape.default", "aten.squeeze.dim", "aten.unsqueeze.default")
EMPTY = ("aten.zeros_like.default", "aten.ones_like.default", "aten.full_like.default", "aten.new_zeros.default", "aten.new_ones.default", "aten.new_full.default")  # take sizes alone
HEALTHY = {"aten.isfinite.default": True, "aten.isnan.default": False, "aten.isinf.default": False}  # what a step that goes well answers
TOKEN = 7  # inputs are full of this one: in every vocabulary, padding in none


@functools.lru_cache
def breaks(path):
    """The lines of the conditions of a file that end a loop."""
    try:
        tree = ast.parse("".join(linecache.getlines(path)))
    except SyntaxError:
        return frozenset()
    ends = [n for n in ast.walk(tree) if isinstance(n, ast.If) and isinstance(n.body[-1], ast.Break)]
    return frozenset(line for n in ends for line in range(n.test.lineno, n.test.end_lineno + 1))


def ends_loop(frame):
    return frame.f_lineno in breaks(frame.f_code.co_filename)


class Unanswerable(Exception):
    """A question that only real data would answer."""


class Answers:
    def __init__(self, torch, module_of, changes=lambda node, before=None: (), uneven=False):
        self.uneven = uneven  # every token prefers the same experts, instead of any
        self.routed = False  # an answer rested on weights
        self.looped = False  # a loop was not ended where the answer would have done so
        self.torch, self.module_of = torch, module_of  # module_of(name): the tensor behind a get_attr node
        self.changes = changes  # changes(node, before): the operators that wrote into the memory of a node's result before another ran, in order
        self.known, self.learnt = {}, {}
        self.random = torch.Generator().manual_seed(0)

    def value(self, tensor):
        node = getattr(tensor, NODE, None)
        if node is None and hasattr(tensor, VALUE):
            return getattr(tensor, VALUE)
        if node is None:
            raise Unanswerable("a question about a tensor that no operator made")
        if tensor.numel() > MOST:
            raise Unanswerable("a question about too many values")
        self.of(node)
        for change in self.changes(node):  # they write into what views share
            self.of(change)
        return self.of(node)

    def of(self, node):
        if node not in self.known:
            self.known[node] = self.compute(node)
        return self.known[node]

    def compute(self, node):
        torch = self.torch
        val = node.meta.get("val")
        if node.op == "placeholder":
            fill = 0.5 if val.dtype.is_floating_point else TOKEN  # an image that is all zeros is padding to some
            return torch.full(tuple(val.shape), fill, dtype=val.dtype)
        if node.op == "get_attr":
            tensor = self.module_of(node.target)
            if hasattr(tensor, VALUE):
                return getattr(tensor, VALUE)
            if type(tensor) is torch.Tensor and tensor.device.type == "cpu":
                return tensor
            return self.drawn(tensor)
        if isinstance(val, torch.Tensor) and val.dtype.is_floating_point and self.from_weights(node) and not self.picks(node):
            return self.drawn(val)
        if str(node.target) in HEALTHY:
            return torch.full(tuple(val.shape), HEALTHY[str(node.target)])
        if node.op == "call_function" and str(node.target) in COINS and val.numel() == 1:
            return torch.full(tuple(val.shape), 0.999, dtype=val.dtype)
        for source in node.all_input_nodes:
            self.of(source)
            for change in self.changes(source, node):
                self.of(change)
        args = torch.fx.node.map_arg(node.args, self.of)
        kwargs = {k: torch.device("cpu") if isinstance(v, torch.device) else v for k, v in torch.fx.node.map_arg(node.kwargs, self.of).items()}
        args = tuple(torch.device("cpu") if isinstance(a, torch.device) else a for a in args)
        return node.target(*args, **kwargs)

    def drawn(self, like):
        if like.numel() > MOST:
            raise Unanswerable("a question about weights")
        if like.dtype.is_floating_point and self.uneven and like.dim():
            self.routed = True
            return self.torch.linspace(0, 1, like.shape[-1]).expand(tuple(like.shape)).to(like.dtype)
        if like.dtype.is_floating_point:
            self.routed = self.routed or like.dim() > 0
            return self.torch.rand(tuple(like.shape), generator=self.random).to(like.dtype)
        return self.torch.zeros(tuple(like.shape), dtype=like.dtype)

    def is_weight(self, node):
        return node.op == "get_attr" and isinstance(self.module_of(node.target), self.torch.nn.Parameter)

    def from_weights(self, node):
        """Whether a weight leads to a value, other than by way of indices, which are computed; asked once for each."""
        todo, seen = [node], set()
        while todo:
            n = todo.pop()
            if n in seen or self.learnt.get(n) is False:
                continue
            seen.add(n)
            if str(n.target) in EMPTY:
                continue
            if self.is_weight(n):
                self.learnt[node] = True
                return True
            todo += [i for i in n.all_input_nodes if not self.counts(i)]
        self.learnt[node] = False
        return False

    def rests_on_weights(self, node):
        """Whether a weight leads to a value, by whatever way."""
        todo, seen = [node], set()
        while todo:
            n = todo.pop()
            if self.is_weight(n):
                return True
            todo += [i for i in n.all_input_nodes if i not in seen]
            seen.update(n.all_input_nodes)
        return False

    def picks(self, node):
        """Whether a value was chosen among others, as non-maximum suppression does, or is a part of such values."""
        while str(node.target) in VIEWS:
            node = node.args[0]
        return str(node.target) in PICKS

    def counts(self, node):
        """Whether a node's results are integers."""
        val = node.meta.get("val")
        return isinstance(val, self.torch.Tensor) and not val.dtype.is_floating_point and not val.dtype.is_complex

    @contextlib.contextmanager
    def given(self, unreal):
        """Tensors without data answer; unreal tells which those are."""
        torch, undo = self.torch, []
        Tensor, answers = torch.Tensor, self
        from torch._dispatch.python import no_python_dispatcher
        from torch.utils._python_dispatch import _disable_current_modes

        @contextlib.contextmanager
        def as_usual():
            with _disable_current_modes(), no_python_dispatcher():
                yield

        def real(t):
            with as_usual():
                return answers.value(t)

        def answering(name):
            original = getattr(Tensor, name)

            def method(t, *args, **kwargs):
                if not unreal(t):
                    return original(t, *args, **kwargs)
                value = real(t)
                with as_usual():
                    return original(value, *args, **kwargs)

            return method

        truth = answering("__bool__")

        def __bool__(t):
            """Loops that end once a model says so, as decoders that write tables do, run as long as they may: that needs the most memory."""
            said = truth(t)
            goes_on = said and unreal(t) and answers.rests_on_weights(getattr(t, NODE)) and ends_loop(sys._getframe(1))
            answers.looped = answers.looped or goes_on
            return said and not goes_on

        def known(value, device):
            """A new tensor without data whose values are known."""
            t = torch.empty(tuple(value.shape), dtype=value.dtype, device=device)
            if getattr(t, NODE, None) is not None:
                answers.known[getattr(t, NODE)] = value
            return t

        def sized(name, owner=torch):
            """Functions whose result's size follows from values: the result is a new tensor of that size."""
            original = getattr(owner, name)

            def function(t, *args, **kwargs):
                if not isinstance(t, Tensor) or not unreal(t) or name == "where" and (args or kwargs):
                    return original(t, *args, **kwargs)
                value = real(t)
                with as_usual():
                    found = original(value, *args, **kwargs)
                return tuple(known(f, t.device) for f in found) if isinstance(found, tuple) else known(found, t.device)

            return function

        def repeated(original):
            """repeat_interleave with a number of its own for each: index_select with the repeated indices, as ATen does it (native/Repeat.cpp)."""

            def function(t, repeats=None, dim=None, *, output_size=None):
                counts = t if repeats is None else repeats
                if not isinstance(counts, Tensor) or not unreal(counts):
                    return original(t, *([] if repeats is None else [repeats]), **({} if dim is None else {"dim": dim}), **({} if output_size is None else {"output_size": output_size}))
                value = real(counts)
                if repeats is not None and value.numel() == 1:
                    return original(t, int(value), dim=dim)
                with as_usual():
                    found = torch.arange(value.numel())
                    found = original(found, value)
                index = known(found, counts.device)
                if repeats is None:
                    return index
                return (t.flatten() if dim is None else t).index_select(dim or 0, index)

            return function

        def counted(name):
            """Functions of numbers that are given tensors instead."""
            original = getattr(torch, name)
            number = lambda a: real(a).item() if isinstance(a, Tensor) and unreal(a) and a.dim() == 0 else a

            def function(*args, **kwargs):
                return original(*map(number, args), **{k: number(v) for k, v in kwargs.items()})

            return function

        def made(name):
            """Tensors made of numbers, on a GPU that is not there: their values are known."""
            original = getattr(torch, name)

            def function(data, *args, device=None, **kwargs):
                if device is None or torch.device(device).type != "cuda" or isinstance(data, Tensor) and unreal(data):
                    return original(data, *args, **({} if device is None else {"device": device}), **kwargs)
                with as_usual():
                    value = original(data, *args, **kwargs)
                return known(value, device)

            return function

        for name in ("tensor", "as_tensor"):
            undo.append((torch, name, getattr(torch, name)))
            setattr(torch, name, made(name))
        for name in ("__bool__", "__int__", "__float__", "__index__", "item", "tolist"):
            undo.append((Tensor, name, getattr(Tensor, name)))
            setattr(Tensor, name, __bool__ if name == "__bool__" else answering(name))
        def put(owner, name, value):
            undo.append((owner, name, getattr(owner, name)))
            setattr(owner, name, value)

        written = Tensor.__format__  # f"expert_{number}"
        put(Tensor, "__format__", lambda t, how: format(real(t).item(), how) if unreal(t) and t.dim() == 0 else written(t, how))
        for name in ("nonzero", "where", "unique", "unique_consecutive", "bincount"):
            function = sized(name)
            put(torch, name, function)
            if name != "where":
                put(Tensor, name, function)
        for owner in (torch, Tensor):
            put(owner, "repeat_interleave", repeated(owner.repeat_interleave))
        for name in ("arange", "linspace"):
            put(torch, name, counted(name))
        from torch._subclasses import fake_impls

        # Numbers that C++ reads out of tensors, such as a size that is one
        scalar, known_ops = torch.ops.aten._local_scalar_dense.default, getattr(fake_impls, "op_implementations_dict", {})
        usual = known_ops.get(scalar)
        if usual is not None:
            known_ops[scalar] = lambda mode, func, t: real(t).item() if getattr(t, NODE, None) is not None or hasattr(t, VALUE) else usual(mode, func, t)
        # What a mask selects is as long as the mask says, and its gradient flows back
        select = torch.ops.aten.masked_select.default
        usually = known_ops.get(select)

        def selected(mode, func, t, mask):
            if getattr(mask, NODE, None) is None:
                return usually(mode, func, t, mask)
            value = real(mask)
            with as_usual():
                shape = torch.broadcast_shapes(tuple(t.shape), tuple(value.shape))
                count = int(value.expand(shape).sum())
            with mode:
                return t.new_empty(count)

        if usually is not None:
            known_ops[select] = selected
        try:
            yield
        finally:
            if usual is not None:
                known_ops[scalar] = usual
            if usually is not None:
                known_ops[select] = usually
            for owner, name, value in reversed(undo):
                setattr(owner, name, value)
