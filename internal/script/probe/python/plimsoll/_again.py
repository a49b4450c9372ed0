"""Calls of a model that only repeat: evaluation loops call it hundreds of times, without gradients, on batches of one shape.

After a few such calls there is nothing more to see: the next ones get results of the same shapes at once. A call is known by the shapes of what it is given; one that is
given or gives anything but tensors and plain values (a cache that grows, say) is run.
"""
import numbers

from . import _graph

PLAIN = (numbers.Number, str, bytes, type(None))
MOST = 256


class Repeats:
    def __init__(self, torch, enough):
        self.torch, self.enough = torch, enough
        self.seen = {}  # by module and shapes: [calls, result as shapes]

    def key(self, module, args, kwargs):
        """What a call is known by; None where it has to be run."""
        if self.torch.is_grad_enabled():
            return None
        given = self.shapes((args, tuple(sorted(kwargs.items()))))
        return None if given is None else (id(module), module.training, given)

    def shapes(self, value):
        torch = self.torch
        if isinstance(value, torch.Tensor):
            return tuple(value.shape), value.dtype
        if isinstance(value, PLAIN):
            return type(value).__name__, value
        if isinstance(value, dict):
            value = tuple(value.items())
        if not isinstance(value, (tuple, list)):
            return None
        found = tuple(map(self.shapes, value))
        return None if None in found else found

    def result(self, key, make):
        """The result of a call that has been run often enough, with tensors of make(shape, dtype); None where it has not."""
        known = self.seen.get(key)
        if known is None or known[0] < self.enough:
            return None
        return (_graph.mapped(self.torch, known[1], lambda t: make(t.shape, t.dtype)),)

    def ran(self, key, out):
        if key is None or len(self.seen) >= MOST and key not in self.seen or self.shapes(out) is None:
            return
        calls = self.seen.get(key, [0])[0]
        self.seen[key] = [calls + 1, _graph.mapped(self.torch, out, lambda t: self.torch.empty(t.shape, dtype=t.dtype, device="meta"))]
