"""Writes down the forward pass of a model as it runs: every operator, and when Python lets go of every tensor.

The model runs on tensors without data that believe they lie on a GPU. It runs at several sizes; what changes between the runs becomes an expression of batch
and sequence, so that one graph serves other sizes. The graph is written in torch.export's JSON with two notes of our own on each operator: which
tensors die after it, and whether it ran without gradients or outside of autocast.
"""
import contextlib
import dataclasses
import gc
import json
import re
import weakref

from . import _answers, _functions, _inputs

DTYPES = {"uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "float16": 6, "float32": 7, "float64": 8, "complex32": 9, "complex64": 10,
          "complex128": 11, "bool": 12, "bfloat16": 13}


LAST = ("logits", "last_hidden_state", "pred_masks")  # outputs that most of a model leads to, before those that come first
EXPERTS = "expert|moe|rout|gate|switch"  # in the names of modules that send tokens to experts


class Trace:
    """One run at one size."""

    def __init__(self):
        self.nodes = []  # dicts: target, args, outs, stack, notes
        self.values = []  # [dtype, sizes, strides] by number
        self.names = {}  # fx node -> value number
        self.fixed = []  # (value, role, name)
        self.inputs, self.alive = [], []
        self.leaves = []  # values that the model's code lets require gradients
        self.held = []  # values that modules still refer to when forward is over: state that lives until the next step
        self.routed = False  # which expert gets a token was asked, and drawn
        self.drawn = False  # something else that only weights could tell was, such as how many keypoints a model finds
        self.looped = False  # a loop that the model ends by itself ran as long as it may
        self.objective = ""  # what backward starts from: the model's loss, or the output whose mean is taken


class Recorder:
    """Listens to make_fx: module calls, operators, deaths."""

    def __init__(self, torch, model):
        self.torch, self.model = torch, model
        self.paths = {id(m): (name, type(m)) for name, m in model.named_modules()}
        self.calls, self.count = [], 0
        self.entered, self.when = {}, {}
        self.order, self.state, self.deaths, self.living = [], {}, [], {}
        self.storages = {}  # storage -> the last operator that gave a tensor of it
        self.memory = {}  # operator -> the memory of its result: (storage, when it was made)
        self.changes = {}  # memory -> the operators that wrote into it
        self.leaves = []  # operators whose results were told to require gradients

    @contextlib.contextmanager
    def listening(self):
        from torch.fx.experimental import proxy_tensor

        torch, track, call = self.torch, proxy_tensor.track_tensor, self.torch.nn.Module._call_impl
        tracer = proxy_tensor.PythonKeyTracer
        own = tracer.__dict__.get("create_node")
        create = tracer.create_node

        def track_tensor(tensor, proxy, **kwargs):
            out = track(tensor, proxy, **kwargs)
            node = proxy.node
            self.living[node] = True
            setattr(tensor, _answers.NODE, node)
            self.storages[tensor.untyped_storage()._cdata] = node
            self.note_memory(node, tensor.untyped_storage()._cdata)
            weakref.finalize(tensor, self.died, node)
            return out

        def create_node(tracer, *args, **kwargs):
            node = create(tracer, *args, **kwargs)
            self.tracer = tracer
            self.count += 1
            self.order.append(node)
            self.when[node] = self.count
            self.state[node] = (tuple(self.calls), torch.is_grad_enabled(), torch.is_autocast_enabled("cuda"), torch.backends.cudnn.enabled)
            return node

        def _call_impl(module, *args, **kwargs):
            known = self.paths.get(id(module))
            if known is None:
                return call(module, *args, **kwargs)
            n = self.entered[id(module)] = self.entered.get(id(module), -1) + 1
            self.calls.append((f"{known[0]}@{n}", known[0], known[1].__module__ + "." + known[1].__qualname__))
            try:
                return call(module, *args, **kwargs)
            finally:
                self.calls.pop()

        def require(tensor, value=True):  # written down, not done: a graph of autograd would keep tensors alive
            if value and hasattr(tensor, _answers.NODE):
                self.leaves.append(getattr(tensor, _answers.NODE))
            return tensor

        now = torch.Tensor.requires_grad
        limit = proxy_tensor.CONSTANT_NUMEL_LIMIT  # make_fx computes with numbers in tensors, on the GPU if they are moved there
        proxy_tensor.CONSTANT_NUMEL_LIMIT = 0
        proxy_tensor.track_tensor, tracer.create_node, torch.nn.Module._call_impl = track_tensor, create_node, _call_impl
        torch.Tensor.requires_grad, torch.Tensor.requires_grad_ = property(now.__get__, require), require
        try:
            yield
        finally:
            del torch.Tensor.requires_grad, torch.Tensor.requires_grad_  # of its base class
            proxy_tensor.track_tensor, torch.nn.Module._call_impl, proxy_tensor.CONSTANT_NUMEL_LIMIT = track, call, limit
            if own is None:
                del tracer.create_node
            else:
                tracer.create_node = own

    def note_memory(self, node, storage):
        """Views have the memory of what they are views of; another tensor may get the storage of one that died."""
        shared = [m for m in (self.memory.get(n) for n in node.all_input_nodes) if m is not None and m[0] == storage]
        memory = self.memory[node] = shared[0] if shared else (storage, self.count)
        if getattr(getattr(node.target, "_schema", None), "is_mutable", False):
            self.changes.setdefault(memory, []).append((self.count, node))

    def changed(self, node, before=None):
        """The operators that wrote into the memory of a node's result, up to another node."""
        last = self.when.get(before, self.count + 1)
        return [n for at, n in self.changes.get(self.memory.get(node), ()) if at < last and n is not before]

    def root(self):
        """The module that holds the constants make_fx has met."""
        return self.tracer.root

    def died(self, node):
        if self.living.pop(node, None):
            self.deaths.append((self.count, node))


def run(torch, fake, model, batch, autocast, uneven=False, call=None):
    """The trace of model(**batch), a dict of tensors, of what holds tensors, and of numbers; or of another call with it: (what stays alive, the loss, what it is)."""
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.utils import _pytree

    recorder = Recorder(torch, model)
    for value in batch.values():
        if dataclasses.is_dataclass(value) and type(value) not in _pytree.SUPPORTED_NODES:
            _pytree.register_dataclass(type(value))
    leaves, form = _pytree.tree_flatten(batch)
    distinct = {id(t): t for t in leaves if isinstance(t, torch.Tensor)}  # labels may be the ids themselves
    order = list(distinct)
    named = {id(t): name for name in reversed(batch) for t in _pytree.tree_leaves(batch[name])}
    ended = []

    def step(*given):
        for t, now in zip(distinct.values(), given):
            if hasattr(t, _inputs.VALUE):
                answers.known[getattr(now, _answers.NODE)] = getattr(t, _inputs.VALUE)
        now = _pytree.tree_unflatten([given[order.index(id(t))] if id(t) in distinct else t for t in leaves], form)
        out, loss, objective = call(now) if call else called(torch, model, now, lambda t: gradients(recorder, answers, t))
        ended.append(((out, loss), list(recorder.living), objective, [n for n in kept_by(torch, model) if n in recorder.living]))
        return loss

    answers = _answers.Answers(torch, lambda name: getattr(recorder.root(), name), recorder.changed, uneven)
    unreal = lambda t: isinstance(t, FakeTensor)
    gc.collect()
    with fake, recorder.listening(), answers.given(unreal), autocasting(torch, autocast), torch.enable_grad(), _functions.noted(torch, model, recorder.entered):
        graph = make_fx(step, tracing_mode="real", pre_dispatch=True, _allow_non_fake_inputs=True)(*distinct.values())
    trace = collected(torch, recorder, graph, model, [named[i] for i in order], ended[0][1], ended[0][3])
    trace.objective, shared = ended[0][2], any(re.search(EXPERTS, name) for name, _ in model.named_modules())
    trace.routed, trace.drawn, trace.looped = answers.routed and shared, answers.routed and not shared and not answers.looped, answers.looped
    return trace


def gradients(recorder, answers, tensor):
    """Whether a gradient of this tensor reaches a parameter: it, or what was written into it, rests on one by way of numbers that are not indices, made where gradients are enabled."""
    node = getattr(tensor, _answers.NODE, None)
    todo, seen = [] if node is None else [node, *recorder.changed(node)], set()
    while todo:
        n = todo.pop()
        if n in seen or n.op == "call_function" and not recorder.state[n][1]:
            continue
        seen.add(n)
        if answers.is_weight(n):
            return True
        for source in n.all_input_nodes:
            todo += [] if answers.counts(source) else [source, *recorder.changed(source, n)]
    return False


def called(torch, model, given, trained):
    out = model(**given)
    return out, *objective_of(torch, out, trained)


def kept_by(torch, model):
    """The operators whose results modules have as attributes."""
    for m in model.modules():
        for value in vars(m).values():
            if isinstance(value, torch.Tensor) and hasattr(value, _answers.NODE):
                yield getattr(value, _answers.NODE)


def objective_of(torch, out, gradients):
    """What backward starts from, and its name: the loss where the model gives one, else the mean of an output that has a gradient: of its last layer, or the first."""
    loss = out.get("loss") if isinstance(out, dict) else None
    if isinstance(loss, torch.Tensor):
        return loss if loss.dim() == 0 else loss.mean(), "loss"
    last = [(n, out[n]) for n in LAST if isinstance(out, dict) and isinstance(out.get(n), torch.Tensor)]
    for name, t in [*last, *_leaves(torch, out)]:
        if t.is_floating_point() and gradients(t):
            return t.mean(), name
    raise ValueError("the model gives nothing that a gradient could start from")


def numbers(torch, out):
    """The tensors of an output that are of floating-point numbers."""
    return [t for _, t in _leaves(torch, out) if t.is_floating_point()]


def _leaves(torch, out, name=""):
    """The tensors of an output with the names they have in it."""
    if isinstance(out, torch.Tensor):
        yield name, out
    elif isinstance(out, dict):
        for key, value in out.items():
            yield from _leaves(torch, value, str(key))
    elif isinstance(out, (tuple, list)):
        for value in out:
            yield from _leaves(torch, value, name)


@contextlib.contextmanager
def autocasting(torch, dtype):
    """torch.autocast("cuda") without asking for a GPU."""
    if dtype is None:
        yield
        return
    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_dtype("cuda", dtype)
    try:
        yield
    finally:
        torch.set_autocast_enabled("cuda", False)
        torch.clear_autocast_cache()


def collected(torch, recorder, graph, model, names, living, held):
    trace, at = Trace(), {}
    known = {id(p): (n, "parameter") for n, p in model.named_parameters()}
    known.update({id(b): (n, "buffer") for n, b in model.named_buffers()})
    seen = {}

    def value(tensor):
        trace.values.append([DTYPES[str(tensor.dtype).removeprefix("torch.")], list(tensor.shape), list(tensor.stride())])
        return len(trace.values) - 1

    for name, p in model.named_parameters():
        seen[id(p)] = value(p)
        trace.fixed.append((seen[id(p)], "parameter", name))
    for name, b in model.named_buffers():
        if id(b) not in seen:
            seen[id(b)] = value(b)
            trace.fixed.append((seen[id(b)], "buffer", name))

    by_storage = {t.untyped_storage()._cdata: seen[id(t)] for t in (*model.parameters(), *model.buffers())}
    made = {}  # fx node of an operator -> index in trace.nodes
    at_count = []
    inputs = iter(names)
    for number, node in enumerate(recorder.order):
        val = node.meta.get("val")
        if node.op == "placeholder":
            at[node] = value(val)
            trace.inputs.append((at[node], next(inputs)))
        elif node.op == "get_attr":
            tensor = getattr(graph, node.target)
            same = by_storage.get(tensor.untyped_storage()._cdata)
            base = recorder.storages.get(tensor.untyped_storage()._cdata)
            if same is None and base in at:
                same = at[base]
            if id(tensor) not in seen and same is not None and trace.values[same][1] == list(tensor.shape):
                seen[id(tensor)] = same  # t.data: another name of a tensor that is known
            if id(tensor) not in seen:
                seen[id(tensor)] = value(tensor)
                trace.fixed.append((seen[id(tensor)], "tensor_constant", f"constant{len(trace.fixed)}"))
            at[node] = seen[id(tensor)]
        elif node.op == "call_function" and getattr(node.target, "__name__", "") == "getitem" and node.args[0] in made:
            outs = trace.nodes[made[node.args[0]]]["outs"]
            at[node] = outs[node.args[1]]
        elif node.op == "call_function" and hasattr(node.target, "_schema"):
            made[node] = len(trace.nodes)
            trace.nodes.append(operator(torch, recorder, node, at, value))
        at_count.append(len(trace.nodes) - 1)
    fixed = {v for v, *_ in trace.fixed}
    for count, node in recorder.deaths:
        if node in at and count <= len(at_count):
            where = at_count[count - 1]
            if where >= 0 and at[node] not in fixed:
                trace.nodes[where]["dies"].append(at[node])
    result = [n for n in graph.graph.nodes if n.op == "output"][0].args[0]
    loss = at[_same(recorder, result)]
    trace.alive = [loss] + [at[n] for n in living if n in at and at[n] != loss and n.op != "placeholder"]
    trace.held = [at[n] for n in held if n in at and at[n] not in fixed]
    trace.leaves = [at[n] for n in recorder.leaves if n in at and at[n] not in fixed]
    return trace


def _same(recorder, node):
    """make_fx copies its graph: nodes keep their names."""
    return next(n for n in recorder.order if n.name == node.name)


def operator(torch, recorder, node, at, value):
    calls, grad, autocast, cudnn = recorder.state[node]
    schema = node.target._schema
    args = []
    for i, a in enumerate(schema.arguments):
        if i < len(node.args) and not a.kwarg_only:
            given = node.args[i]
        elif a.name in node.kwargs:
            given = node.kwargs[a.name]
        else:
            continue
        args.append((a.name, argument(torch, given, at)))
    outs = []
    val = node.meta.get("val")
    if isinstance(val, torch.Tensor):
        outs, single = [value(val)], True
        at[node] = outs[0]
    elif isinstance(val, (tuple, list)):
        outs = [value(v) if isinstance(v, torch.Tensor) else -1 for v in val]
    return {"target": str(node.target), "args": args, "outs": outs, "stack": calls, "grad": grad, "autocast": autocast, "cudnn": cudnn, "dies": []}


def argument(torch, a, at):
    """(kind, content) in torch.export's words."""
    Node = torch.fx.Node
    if isinstance(a, Node):
        return ("as_tensor", at[a]) if a in at else ("as_none", None)
    if a is None:
        return "as_none", None
    if isinstance(a, bool):
        return "as_bool", a
    if isinstance(a, int):
        return "as_int", a
    if isinstance(a, float):
        return "as_float", a
    if isinstance(a, str):
        return "as_string", a
    if isinstance(a, torch.dtype):
        return "as_scalar_type", DTYPES.get(str(a).removeprefix("torch."), 0)
    if isinstance(a, (list, tuple)):
        if any(isinstance(x, Node) for x in a):
            return "as_optional_tensors", [at.get(x, -1) if isinstance(x, Node) else -1 for x in a]
        if a and all(isinstance(x, bool) for x in a):
            return "as_bools", list(a)
        if all(isinstance(x, int) for x in a):
            return "as_ints", list(a)
        if all(isinstance(x, (int, float)) for x in a):
            return "as_floats", [float(x) for x in a]
    return "as_device", None  # device, layout, memory format: nothing with bytes


class Differs(Exception):
    """Two runs at different sizes do not have the same operators."""


def fitted(numbers, sizes, symbols):
    """What a number is at every size: itself, or an expression of the symbols that gives all of them.

    Most sizes are a product of symbols times a number plus a number: three runs find and check that. Sums of different products, a + b·batch + c·seq +
    d·batch·seq, are found from the corners of a rectangle and checked on the rest.
    """
    first = numbers[0]
    if all(n == first for n in numbers):
        return first
    for names in _products(symbols)[1:]:
        x = [_product(size, names) for size in sizes]
        if x[0] != x[1] and (numbers[1] - first) % (x[1] - x[0]) == 0:
            factor = (numbers[1] - first) // (x[1] - x[0])
            rest = first - factor * x[0]
            if all(n == factor * at + rest for n, at in zip(numbers, x)):
                return f"{factor}*{'*'.join(names)}" + (f"{rest:+d}" if rest else "")
    terms = _terms(numbers, sizes, symbols)
    for n, size in zip(numbers, sizes):
        total = sum(factor * _product(size, names) for names, factor in terms)
        if total != n:
            raise Differs(f"{numbers} at {sizes}")
    return "+".join("*".join([str(factor), *names]) for names, factor in terms if factor).replace("+-", "-")


def _products(symbols):
    out = [[]]
    for s in symbols:
        out += [p + [s] for p in out]
    return out


def _product(size, names):
    out = 1
    for name in names:
        out *= size[name]
    return out


def _terms(numbers, sizes, symbols):
    """Coefficients of all products of symbols, by exact elimination over the first 2^n sizes."""
    from fractions import Fraction

    products = _products(symbols)
    rows = [[Fraction(_product(size, p)) for p in products] + [Fraction(n)] for size, n in zip(sizes, numbers)][: len(products)]
    if len(sizes) <= len(products):
        raise Differs("too few sizes")
    n = len(products)
    for i in range(n):
        pivot = next((r for r in range(i, n) if rows[r][i] != 0), None)
        if pivot is None:
            raise Differs("sizes that tell nothing")
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for r in range(n):
            if r != i and rows[r][i] != 0:
                rows[r] = [x - rows[r][i] * y for x, y in zip(rows[r], rows[i])]
    out = []
    for names, row in zip(products, rows):
        if row[-1].denominator != 1:
            raise Differs(f"{numbers} at {sizes}")
        if row[-1] != 0:
            out.append((names, int(row[-1])))
    return out


def document(traces, sizes, symbols, about):
    """torch.export's JSON of one or several runs of the same operators."""
    first = traces[0]
    for t in traces[1:]:
        if [n["target"] for n in t.nodes] != [n["target"] for n in first.nodes] or len(t.values) != len(first.values):
            raise Differs("other operators at another size")
        if [n["dies"] for n in t.nodes] != [n["dies"] for n in first.nodes] or t.alive != first.alive:
            raise Differs("other lifetimes at another size")
    known = {}  # most numbers are those of a few sizes

    def fit(numbers):
        key = tuple(numbers)
        if key not in known:
            known[key] = fitted(numbers, sizes, symbols)
        return known[key]

    size = lambda x: {"as_int": x} if isinstance(x, int) else {"as_expr": {"expr_str": x}}
    name = lambda v: {"name": f"v{v}"}
    values = {}
    for i, (dtype, shape, strides) in enumerate(first.values):
        others = [t.values[i] for t in traces]
        if any(o[0] != dtype or len(o[1]) != len(shape) for o in others):
            raise Differs("another type or rank at another size")
        values[f"v{i}"] = {"dtype": dtype, "sizes": [size(fit([o[1][d] for o in others])) for d in range(len(shape))],
                           "strides": [size(fit([o[2][d] for o in others])) for d in range(len(shape))], "requires_grad": i in first.leaves}
    integers = {}

    def symbolic(text):
        integers.setdefault(text, f"i{len(integers)}")
        return {"as_name": integers[text]}

    def written(kind, contents):
        content = contents[0]
        if kind == "as_tensor":
            return {kind: name(content)}
        if kind == "as_optional_tensors":
            return {kind: [{"as_tensor": name(v)} if v >= 0 else {"as_none": True} for v in content]}
        if kind == "as_int":
            number = fit(contents)
            return {kind: number} if isinstance(number, int) else {"as_sym_int": symbolic(number)}
        if kind == "as_ints":
            if any(len(c) != len(content) for c in contents):
                raise Differs("a list of another length at another size")
            numbers = [fit([c[i] for c in contents]) for i in range(len(content))]
            if all(isinstance(n, int) for n in numbers):
                return {kind: numbers}
            return {"as_sym_ints": [{"as_int": n} if isinstance(n, int) else symbolic(n) for n in numbers]}
        if kind in ("as_none", "as_device"):
            return {kind: True}
        return {kind: content}

    nodes = []
    for i, n in enumerate(first.nodes):
        notes = {"nn_module_stack": ";".join(",".join(level) for level in n["stack"])}
        if n["dies"]:
            notes["plimsoll_dies"] = ",".join(f"v{v}" for v in n["dies"])
        if not n["grad"]:
            notes["plimsoll_no_grad"] = "1"
        if not n["autocast"]:
            notes["plimsoll_no_autocast"] = "1"
        if not n["cudnn"]:
            notes["plimsoll_no_cudnn"] = "1"
        inputs = []
        for j, (arg, (kind, _)) in enumerate(n["args"]):
            contents = []
            for t in traces:
                if len(t.nodes[i]["args"]) != len(n["args"]) or t.nodes[i]["args"][j][1][0] != kind:
                    raise Differs("other arguments at another size")
                contents.append(t.nodes[i]["args"][j][1][1])
            inputs.append({"name": arg, "arg": written(kind, contents)})
        outs = [{"as_tensor": name(v)} if v >= 0 else {"as_none": True} for v in n["outs"]]
        nodes.append({"target": "torch.ops." + n["target"], "inputs": inputs, "outputs": outs, "metadata": notes})
    specs = []
    for v, role, fqn in first.fixed:
        field = {"parameter": "parameter_name", "buffer": "buffer_name", "tensor_constant": "tensor_constant_name"}[role]
        specs.append({role: {"arg": name(v), field: fqn}})
    specs += [{"user_input": {"arg": {"as_tensor": name(v)}}} for v, _ in first.inputs]
    return json.dumps({
        "plimsoll": {**about, "held": [f"v{v}" for v in first.held], "routed": first.routed},
        "graph_module": {
            "graph": {"inputs": [], "outputs": [], "nodes": nodes, "tensor_values": values,
                      "sym_int_values": {n: {"as_expr": {"expr_str": text}} for text, n in integers.items()}},
            "signature": {"input_specs": specs, "output_specs": [{"user_output": {"arg": {"as_tensor": name(v)}}} for v in first.alive]},
        },
        "torch_version": about["torch"],
    }, separators=(",", ":"))
