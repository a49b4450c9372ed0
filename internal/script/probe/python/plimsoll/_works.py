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


def _reduction(func, args, kwargs, out):
    """A reduction to fewer numbers; those over one dimension that is small need nothing."""
    x = args[0]
    if not hasattr(x, "dim") or not x.dim() or x.numel() < SMALL or not x.dtype.is_floating_point:
        return None
    place = next((i for i, a in enumerate(func._schema.arguments) if a.name == "dim"), None)
    dims = None if place is None else args[place] if place < len(args) else kwargs.get("dim")
    dims = [dims] if isinstance(dims, int) else list(dims or range(x.dim()))
    return ("reduce", str(x.dtype).removeprefix("torch."), tuple(x.shape), tuple(sorted(d % x.dim() for d in dims)), (), tuple(x.stride()), (), (), False, 1, (), False, False)


SMALL = 1 << 14  # elements: a block of threads does it alone
REDUCTIONS = ("sum", "mean", "amax", "amin", "prod", "linalg_vector_norm", "var", "std", "var_mean", "std_mean", "argmax", "argmin", "norm")
WORKS = {**dict.fromkeys(REDUCTIONS, _reduction), "mm": _product, "bmm": _product, "addmm": _product, "baddbmm": _product, "convolution": _convolution, "convolution_backward": _convolution_backward}
# Kernels that copy what does not lie in one piece, and how many of their first arguments
# (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/cuda/SoftMax.cu, host_softmax: input_.contiguous(), and host_softmax_backward;
# https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/layer_norm.cpp, layer_norm_cuda: X.expect_contiguous()).
IN_ONE_PIECE = {"_softmax": 1, "_log_softmax": 1, "_softmax_backward_data": 2, "_log_softmax_backward_data": 2, "native_layer_norm": 1, "native_layer_norm_backward": 2}
