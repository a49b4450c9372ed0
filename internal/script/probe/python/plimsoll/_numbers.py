"""Numbers that a model keeps in tensors, such as the strides of its convolutions: a model built without data still knows them.

Code that is run asks these tensors for their numbers, to pad by them for example. While the model is built, what makes a few whole numbers is computed a second
time, with data, and the result is noted on the tensor without.
"""
VALUE = "_plimsoll_value"  # on a tensor: what it contains
FEW = 1 << 12  # elements


def known(torch, inside):
    """A mode in which whole numbers in tensors are known; inside(tensor) tells which tensors have no data."""

    class Known(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            out = function(*args, **kwargs)
            if isinstance(out, torch.Tensor) and inside(out) and not out.dtype.is_floating_point and not out.dtype.is_complex and out.numel() <= FEW:
                self.note(out, function, args, kwargs)
            return out

        def note(self, out, function, args, kwargs):
            """Computes it again where all that it is made of is known."""
            try:
                with torch.device("cpu"):
                    value = function(*[real(a) for a in args], **{k: real(v) for k, v in kwargs.items() if k != "device"})
            except Unknown:
                if hasattr(out, VALUE):  # written into: what was known is no longer so
                    delattr(out, VALUE)
                return
            setattr(out, VALUE, value)

    class Unknown(Exception):
        pass

    def real(a):
        if isinstance(a, torch.Tensor) and inside(a):
            if not hasattr(a, VALUE):
                raise Unknown
            return getattr(a, VALUE)
        if isinstance(a, torch.device):
            return torch.device("cpu")
        return type(a)(real(x) for x in a) if type(a) in (list, tuple) else a

    return Known()
