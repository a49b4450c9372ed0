"""torch.autograd.Function in a model that is read: what its backward has of it.

Its forward runs without gradient mode, so that a trace of operators ends there. Every result becomes the result of one operator, whose arguments are the function's own and what it saved.
"""
import contextlib

SCHEMA = "function(Tensor(a) result, Tensor[] arguments, Tensor[] saved) -> Tensor(a)"
HIDDEN = ("{} computes layers inside of {}, a torch.autograd.Function that computes them once more in its backward, and the forward pass does not show how; "
          "predict the script that trains it instead, as in plimsoll predict -- python train.py")
_kept = []  # a library's operators live as long as it does


def operator(torch):
    """The operator, defined once in a process."""
    if not _kept:
        library = torch.library.Library("plimsoll", "FRAGMENT")
        library.define(SCHEMA)
        library.impl("function", lambda result, arguments, saved: result.view_as(result), "CompositeExplicitAutograd")
        _kept.append(library)
    return torch.ops.plimsoll.function.default


class Hidden(Exception):
    """Layers whose backward is a function's own."""


class Context:
    """What forward is given to keep things in."""

    def __init__(self):
        self.saved_tensors, self.needs_input_grad = (), (True,) * 64

    def save_for_backward(self, *tensors):
        self.saved_tensors = tensors

    save_for_forward = mark_dirty = mark_non_differentiable = set_materialize_grads = lambda self, *args: None


@contextlib.contextmanager
def noted(torch, model, entered):
    """Functions run so for as long as a model is read; entered counts the calls of its modules, by id."""
    base, call = torch.autograd.Function, operator(torch)
    own = base.__dict__["apply"]

    def apply(cls, *args, **kwargs):
        if not torch.is_grad_enabled():
            return own.__func__(cls, *args, **kwargs)
        context, before = Context(), dict(entered)
        with torch.no_grad():
            if cls.setup_context is base.setup_context:
                out = cls.forward(context, *args, **kwargs)
            else:
                out = cls.forward(*args, **kwargs)
                cls.setup_context(context, args, out)
        if any(entered.get(id(m)) != before.get(id(m)) and next(m.parameters(), None) is not None for m in model.modules()):
            raise Hidden(HIDDEN.format(type(model).__name__, cls.__name__))
        given = [a for a in args if isinstance(a, torch.Tensor) and a.is_floating_point()]
        kept = [t for t in context.saved_tensors if isinstance(t, torch.Tensor)]
        kept += [v for v in vars(context).values() if isinstance(v, torch.Tensor)]

        def noted(result):
            if not isinstance(result, torch.Tensor) or not result.is_floating_point() or not given or any(result is a for a in args):
                return result
            return call(result, given, kept)

        return tuple(map(noted, out)) if isinstance(out, tuple) else noted(out)

    base.apply = classmethod(apply)
    try:
        yield
    finally:
        base.apply = own
