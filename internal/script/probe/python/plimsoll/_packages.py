"""Models of timm and diffusers: built from their configuration without weights, their training step written down as that of models of transformers is (see _models).

Each package says in a module of its own (_timm, _diffusers) how a model is built, what its forward takes and what it is trained with.
"""
import contextlib
import re

from . import _forward, _inputs, _layers, _models

LEARNT = 16  # corrections of a width before a choice of inputs is given up


class Subject:
    """A model of a package. Modules of packages fill it in."""

    model = cls = None
    task = "features"
    dtype = None  # of its first parameter

    def choices(self):
        """Forms of the inputs to try, the most likely first."""
        return [0]

    def given(self, sizes, choice):
        """The inputs and targets of a step by name, as tensors."""
        raise NotImplementedError

    def step(self, given):
        """Runs a step: (what stays alive, the loss, what it is)."""
        raise NotImplementedError

    def forget(self):
        """Another form of the inputs is tried: what was learnt of the last is void."""

    def learn(self, failure):
        """Whether a failed run told something about the inputs, so that another is worthwhile."""
        return False

    def notes(self, sizes, choice):
        return []


def describe(package, request):
    """The graph of a request for a model of a package."""
    import torch

    from . import _shapes

    _shapes.install(torch)
    torch.jit._state.disable()  # as for models of transformers
    with _models.as_running(torch, None):
        return described(torch, request, package(torch, request))


@contextlib.contextmanager
def counted(torch):
    """Numbers that constructors read from torch.linspace are computed, though parameters are not."""
    linspace = torch.linspace

    def on_host(*args, **kwargs):
        kwargs.setdefault("device", "cpu")
        return linspace(*args, **kwargs)

    torch.linspace = on_host
    try:
        yield
    finally:
        torch.linspace = linspace


def made(torch, build):
    """A model that build makes, on the meta device, and what was registered in it."""
    for around in (contextlib.nullcontext(), counted(torch)):
        try:
            with torch.device("meta"), around, _models.registering(torch) as registered:
                return build().train(), registered
        except RuntimeError as failure:  # a number that is read of a tensor without data
            problem = failure
    raise problem


def described(torch, request, s):
    from torch._subclasses.fake_tensor import FakeTensorMode

    model = s.model
    created = s.created
    frozen = [n for n, p in model.named_parameters() if not p.requires_grad]
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    _models.without_data(torch, fake, model)
    s.dtype = next((p.dtype for p in model.parameters() if p.dtype.is_floating_point), torch.float32)
    autocast = getattr(torch, _models.WORDS[request["autocast"]]) if request.get("autocast") else None
    done, used, said = {}, set(), {}

    def run(size, choice):
        with fake:
            sizes = _inputs.Sizes(size)
            given = s.given(sizes, choice)
        trace = _forward.run(torch, fake, model, given, autocast, request.get("routing") == "worst", s.step)
        done[tuple(sorted(size.items()))] = trace
        used.update(sizes.used)
        said.setdefault(choice, s.notes(sizes, choice))
        return trace

    base = _models.sizes_of(request, ("batch",))[0]
    chosen = choose(s, lambda choice: run(base, choice))
    names = [name for _, name in next(iter(done.values())).inputs]
    whole = _layers.Shorter(torch, model, next(iter(done.values())))

    def trace(size):
        return done.get(tuple(sorted(size.items()))) or _models.in_short(whole, done, size, lambda: run(size, chosen)) or run(size, chosen)

    checkpoints, rough = checkpointed(torch, fake, s, lambda: s.given(_inputs.Sizes(base), chosen))
    about = {
        "torch": torch.__version__, "package": s.version, "class": s.cls.__name__, "module": s.cls.__module__, "task": s.task, "created": created, "inputs": names,
        "variant": chosen, "tokens": 0, "notes": said[chosen] + rough, "checkpoints": checkpoints, "frozen": frozen, **_models.linears(torch, None, model),
    }
    return _models.at_any_size(request, used, trace, about)


def choose(s, run):
    """The first form of the inputs that runs."""
    problems = []
    for choice in s.choices():
        s.forget()
        for _ in range(LEARNT):
            try:
                run(choice)
                return choice
            except _inputs.Missing:
                raise
            except Exception as failure:
                if not s.learn(failure):
                    problems.append(failure)
                    break
    raise problems[0] if problems else _models.Refused(f"nothing is known about the inputs of {s.cls.__name__}")


def checkpointed(torch, fake, s, given):
    """The modules whose calls the package's own gradient checkpointing recomputes, found by asking for it, and a note where they cannot be told apart."""
    switch = s.checkpointing()
    if switch is None:
        return [], []
    paths = {id(m): n for n, m in s.model.named_modules()}
    found, more, inside = {}, [], []
    original, call = torch.utils.checkpoint.checkpoint, torch.nn.Module._call_impl

    def checkpoint(function, *args, **kwargs):
        for word in ("use_reentrant", "context_fn", "determinism_check", "debug", "preserve_rng_state"):
            kwargs.pop(word, None)
        inside.append([])
        try:
            return function(*args, **kwargs)
        finally:
            mine = inside.pop()
            found.update(dict.fromkeys(m for m in mine if m is not None))
            more.extend(mine[1:])

    def _call_impl(module, *args, **kwargs):
        if not inside or inside[-1] is None:
            return call(module, *args, **kwargs)
        inside[-1].append(paths.get(id(module)))
        inside.append(None)
        try:
            return call(module, *args, **kwargs)
        finally:
            inside.pop()

    torch.utils.checkpoint.checkpoint, torch.nn.Module._call_impl = checkpoint, _call_impl
    try:
        switch(True)
        with fake, torch.enable_grad():
            s.step(given())
    except Exception:  # models that say they can, and cannot
        return [], []
    finally:
        torch.utils.checkpoint.checkpoint, torch.nn.Module._call_impl = original, call
        with contextlib.suppress(Exception):
            switch(False)
    rough = ["some of its checkpoints hold several modules; each of these is counted as one of its own"] if more else []
    return list(found), rough


MISFITS = (  # what PyTorch says of an input whose last or second dimension is not the one a layer takes: (given, taken)
    (re.compile(r"mat1 and mat2 shapes cannot be multiplied \(\d+x(\d+) and (\d+)x\d+\)"), (1, 2)),
    (re.compile(r"a and b must have same reduction dim, but got \[\d+, (\d+)\] X \[(\d+), \d+\]"), (1, 2)),
    (re.compile(r"Given normalized_shape=\[(\d+)\].*?got input of size\[[\d, ]*?(\d+)\]", re.S), (2, 1)),
    (re.compile(r"to have (\d+) channels, but got (\d+) channels instead"), (2, 1)),
    (re.compile(r"Expected weight to be of same shape as normalized_shape|got weight of shape \[(\d+)\] and normalized_shape = \[(\d+)\]"), (2, 1)),
)


def misfit(failure):
    """(the width an input had, the one it should have had) where a failed run says so; None where it does not."""
    for pattern, (had, should) in MISFITS:
        found = pattern.search(str(failure))
        if found and found.re.groups >= 2 and found[1] and found[2]:
            return int(found[had]), int(found[should])
    return None
