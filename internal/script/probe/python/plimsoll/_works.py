"""Describes operators that take memory of their library's beside their results: cuDNN's convolutions, cuBLAS."""
import sys

FIELDS = ("op", "dtype", "x", "w", "y", "stride", "padding", "dilation", "transposed", "groups", "wants", "channels_last", "benchmark")


def _product(func, args, kwargs, out):
    return ("addmm" if "addmm" in str(func) else "mm", "", (), (), (), (), (), (), False, 1, (), False, False)


def _convolution(func, args, kwargs, out):
    x, w = args[0], args[1]
    return _described("convolution", x, w, out, args[3], args[4], args[5], args[6], args[8], (True, True, True))


def _convolution_backward(func, args, kwargs, out):
    g, x, w = args[0], args[1], args[2]
    return _described("convolution_backward", x, w, g, args[4], args[5], args[6], args[7], args[9], tuple(args[10]))


def _described(op, x, w, y, stride, padding, dilation, transposed, groups, wants):
    last = lambda t: t.dim() == 4 and not t.is_contiguous() and t.stride(1) == 1
    return (op, str(x.dtype).removeprefix("torch."), tuple(x.shape), tuple(w.shape), tuple(y.shape), tuple(stride), tuple(padding), tuple(dilation),
            bool(transposed), groups, wants, last(x) or last(w), bool(sys.modules["torch"].backends.cudnn.benchmark))


WORKS = {"mm": _product, "bmm": _product, "addmm": _product, "baddbmm": _product, "convolution": _convolution, "convolution_backward": _convolution_backward}
