"""Follows which expert a token goes to: `topk` and `argmax` give numbers below a known count, and `chosen == 3` holds for one part in that many.

Each token goes to as many experts as were chosen for it, so that the parts add up to what there is: shares are taken to be equal. If all tokens went to one expert,
as much would still be kept for backward, but in one piece; how much that could add is what the trace counts as routed.
"""


class Routing:
    def __init__(self, torch):
        self.torch = torch
        self.below = {}  # by storage: values are whole numbers below this, each as likely
        self.share = {}  # by storage: this part of the values holds, or is not zero
        aten = torch.ops.aten
        self.rules = {}
        for name, rule in {
            "topk.default": lambda *call: self.chosen(2, *call), "max.dim": lambda *call: self.chosen(1, *call), "argmax.default": self.largest, "eq.Scalar": self.equal, "eq.Tensor": self.equal,
            "any.dim": self.any, "scatter_.value": self.scattered, "scatter.value": self.scattered,
        }.items():
            packet, _, overload = name.partition(".")
            operator = getattr(getattr(aten, packet, None), overload, None)
            if operator is not None:
                self.rules[operator] = rule

    def saw(self, func, args, kwargs, out):
        """Told of every operator."""
        rule = self.rules.get(func)
        if rule is not None:
            rule(args, kwargs, out)
        elif (self.below or self.share) and args and self._is(out) and self._is(args[0]):
            source, made = _key(args[0]), _key(out)
            if source != made and out.numel() == args[0].numel():  # a copy, or another type
                for known in (self.below, self.share):
                    if source in known and not out.dtype.is_floating_point:
                        known[made] = known[source]

    def forget(self, key):
        self.below.pop(key, None)
        self.share.pop(key, None)

    def part(self, mask):
        """How many values of a mask hold, or None where that is not known."""
        share = self.share.get(_key(mask))
        return None if share is None else min(mask.numel(), max(1, -int(-mask.numel() * share // 1)))

    def _is(self, value):
        return isinstance(value, self.torch.Tensor)

    def chosen(self, place, args, kwargs, out):
        """Values and their indices along a dimension, which is the argument at this place."""
        dim = args[place] if len(args) > place else kwargs.get("dim", -1)
        if args[0].dim():
            self.below[_key(out[1])] = args[0].shape[dim]

    def largest(self, args, kwargs, out):
        dim = args[1] if len(args) > 1 else kwargs.get("dim")
        if dim is not None and args[0].dim():
            self.below[_key(out)] = args[0].shape[dim]

    def equal(self, args, kwargs, out):
        count = self.below.get(_key(args[0]))
        if count and (self._is(args[1]) or 0 <= args[1] < count > 1):  # a number that is none of theirs means something else: detection marks boxes without a match so
            self.share[_key(out)] = 1 / count

    def any(self, args, kwargs, out):
        share = self.share.get(_key(args[0]))
        if share is not None:
            dim = args[1] if len(args) > 1 else -1
            self.share[_key(out)] = min(1.0, share * args[0].shape[dim])

    def scattered(self, args, kwargs, out):
        """F.one_hot: one place of each row."""
        count = self.below.get(_key(args[2])) if self._is(args[2]) else None
        if count:
            self.share[_key(out)] = 1 / count


def _key(tensor):
    return tensor.untyped_storage()._cdata
