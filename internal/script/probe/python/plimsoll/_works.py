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
    return (op, str(x.dtype).removeprefix("torch."), tuple(x.shape), tuple(w.shape), tuple(y.shape), tuple(stride), tuple(padding), tuple(dilation),
            bool(transposed), groups, wants, _channels_last(x) or _channels_last(w), bool(sys.modules["torch"].backends.cudnn.benchmark))


def _channels_last(t):
    return t.dim() == 4 and not t.is_contiguous() and t.stride(1) == 1


def _reduction(func, args, kwargs, out):
    """A reduction to fewer numbers; those over one dimension that is small need nothing. Its padding is the size of what a thread sums up in."""
    x = args[0]
    if not hasattr(x, "dim") or not x.dim() or x.numel() < SMALL:
        return None
    place = next((i for i, a in enumerate(func._schema.arguments) if a.name == "dim"), None)
    dims = None if place is None else args[place] if place < len(args) else kwargs.get("dim")
    dims = [dims] if isinstance(dims, int) else list(dims or range(x.dim()))
    return ("reduce", str(x.dtype).removeprefix("torch."), tuple(x.shape), tuple(sorted(d % x.dim() for d in dims)), (), tuple(x.stride()), (_summed_in(func, x, out),), (), False, 1, (), False, False)


def _summed_in(func, x, out):
    """Bytes of the partial results of a reduction (arg_t of https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/cuda/Reduce.cuh): a value and its place, two moments and two
    counts (WelfordData, SharedReduceOps.h), or a number."""
    name = func.overloadpacket.__name__
    if name in ("argmax", "argmin", "var", "std", "var_mean", "std_mean") or name in ("max", "min") and isinstance(out, (tuple, list)):
        return 16
    if name in ("amax", "amin", "max", "min", "any", "all"):
        return x.element_size()
    return max(4, x.element_size(), out.element_size())


SMALL = 1 << 14  # elements: a block of threads does it alone
REDUCTIONS = ("sum", "nansum", "mean", "amax", "amin", "max", "min", "prod", "linalg_vector_norm", "var", "std", "var_mean", "std_mean", "argmax", "argmin", "norm", "any", "all")
WORKS = {**dict.fromkeys(REDUCTIONS, _reduction), "mm": _product, "bmm": _product, "addmm": _product, "baddbmm": _product, "convolution": _convolution, "convolution_backward": _convolution_backward}


# What a kernel takes for its own duration: bytes of what lives at once, beside arguments and results ----------------------------------------


def _bytes(t):
    return t.numel() * t.element_size()


def _cast(func, args, kwargs, out):
    """Numbers are summed in the type of the result: others are converted first, but for 16-bit floats
    (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/ReduceOpsUtils.h, make_reduction and make_reduction_from_out_ty). So a count of what holds has eight bytes for every boolean."""
    x = args[0]
    if not hasattr(x, "dtype") or x.dtype == out.dtype or x.dtype.is_floating_point and x.element_size() == 2 and out.element_size() == 4:
        return ()
    return (x.numel() * out.element_size(),)


def _embedding(func, args, kwargs, out):
    """Sorted indices and where they were, then fp32 sums of pieces of ten (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/cuda/EmbeddingBackwardKernel.cu);
    few indices are added one by one (Embedding.cu)."""
    count, rows, by_count = args[1].numel(), args[2], args[4]
    if count <= 3072 and not by_count:
        return ()
    return 8 * count, 8 * count, (count // 10 + min(count, rows)) * out.shape[-1] * 4


def _tall_norm(func, args, kwargs, out):
    """With very many short rows the gradients of weight and bias are first summed over blocks of 32 rows
    (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/cuda/layer_norm_kernel.cu, LaunchGammaBetaBackwardCUDAKernel)."""
    x, width = args[1], 1
    for n in args[2]:
        width *= n
    rows = x.numel() // max(width, 1)
    if rows <= 64 * 1024 or width // 32 >= 66:
        return ()
    blocks = min(32 * 1024 // -(-width // 32), -(-rows // 32))
    return tuple(size for g in out[1:] if g is not None for size in (blocks * _bytes(g), blocks * _bytes(g) // 2))


def _reduced(func, args, kwargs):
    """Whether a loss is one number."""
    place = next(i for i, a in enumerate(func._schema.arguments) if a.name == "reduction")
    return (args[place] if place < len(args) else kwargs.get("reduction", 1)) != 0


def _each(times):
    """A loss of all elements, made before their mean (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/Loss.cpp)."""
    return lambda func, args, kwargs, out: (times * _bytes(args[0]),) if _reduced(func, args, kwargs) else ()


def _logits(func, args, kwargs, out):
    return (2 * _bytes(args[0]),) if _reduced(func, args, kwargs) else (_bytes(args[0]),)


def _sized(*parts):
    """So many bytes for every element of the first argument, of each part."""
    return lambda func, args, kwargs, out: tuple(int(n * args[0].numel()) for n in parts)


def _safe_softmax(func, args, kwargs, out):
    """Which scores are -inf, and which rows (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/SoftMax.cpp, _safe_softmax)."""
    return out.numel(), out.numel() // max(out.shape[-1], 1)


def _logsumexp(func, args, kwargs, out):
    """exp of what is left above the largest (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/ReduceOps.cpp, logsumexp_out_impl)."""
    return _bytes(args[0]), _bytes(out), _bytes(out)


def _placed(func, args, kwargs, out):
    """Indices in order, for numbers that are added to places: five of eight bytes for each, and what sorting takes
    (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/cuda/Indexing.cu, index_put_with_sort_kernel)."""
    adds = args[3] if len(args) > 3 else kwargs.get("accumulate", False)
    count = max((i.numel() for i in args[1] if i is not None), default=0)
    return (32 * count, 16 * count + SORTED) if adds and count else ()


SORTED = 7 << 10  # bytes that sorting takes at least


def _sort(func, args, kwargs, out):
    """One long row is sorted by cub: places beside the values, and both once more (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/cuda/Sort.cu, sort_cuda_kernel; measured)."""
    x = args[0]
    if x.dim() != 1 or x.numel() <= ROW:
        return ()
    return 8 * x.numel(), (8 + x.element_size()) * x.numel()


ROW = 4096  # longer rows are not sorted by one block


def _topk(func, args, kwargs, out):
    """Counts of digits by row and by block (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/cuda/TensorTopK.cu, mbtopk; measured: 1,024 bytes a row, 512 a block of a thousand)."""
    x = args[0]
    if not x.dim():
        return ()
    long = x.shape[args[2] if len(args) > 2 else kwargs.get("dim", -1)]
    rows = x.numel() // max(long, 1)
    return rows * 1024, rows * 512 * min(-(-long // 1000), 768)


def _bag(func, args, kwargs, out):
    """As an embedding's, with the bags of its indices beside."""
    count, width, rows = args[1].numel(), out.shape[-1], out.shape[0]
    return 40 * count, 18 * count, (count // 10 + min(count, rows)) * width * 4


def _masked(func, args, kwargs, out):
    """A mask is turned into the places where it holds, a number for each of its dimensions."""
    masks = [i for i in (args[1] if isinstance(args[1], (list, tuple)) else [args[1]]) if i is not None and i.element_size() == 1]
    return tuple(8 * m.dim() * out.shape[0] for m in masks if out.dim())


def _randperm(func, args, kwargs, out):
    """Many numbers are put in order by random keys (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/cuda/Randperm.cu; measured from 100,000 on)."""
    n = args[0] if args and isinstance(args[0], int) else 0
    return (24 * n, 16 * n) if n > 1 << 15 else ()


TEMPORARY = {
    # grad · output is made first (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/cuda/SoftMax.cu, softmax_backward_cuda_out)
    "_softmax_backward_data": lambda func, args, kwargs, out: (args[0].numel() * max(args[0].element_size(), args[1].element_size()),),
    "_safe_softmax": _safe_softmax, "logsumexp": _logsumexp, "index_put": _placed, "index_put_": _placed, "_index_put_impl_": _placed, "sort": _sort, "topk": _topk, "index": _masked, "masked_select": _masked, "_embedding_bag_dense_backward": _bag,
    "randperm": _randperm, "multinomial": _sized(4), "count_nonzero": _sized(8, 1),
    # What a plan of cuFFT works in (measured: as much as the complex side has)
    "_fft_r2c": lambda func, args, kwargs, out: (_bytes(out),), "_fft_c2r": lambda func, args, kwargs, out: (_bytes(args[0]),),
    "im2col": lambda func, args, kwargs, out: (_bytes(args[0]),),
    **dict.fromkeys(("sum", "nansum", "prod", "mean", "cumsum", "cumprod"), _cast), "embedding_dense_backward": _embedding, "native_layer_norm_backward": _tall_norm,
    "mse_loss": _each(1), "smooth_l1_loss": _each(1), "huber_loss": _each(1), "binary_cross_entropy_with_logits": _logits,
}
# Losses whose mean is written into the storage of the loss of all elements, which it keeps: their result is made as large as their input and then resized
# (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/Loss.cpp, mse_loss and smooth_l1_loss; aten/src/ATen/native/cuda/Loss.cu, binary_cross_entropy_out_cuda).
RESIZED = ("mse_loss", "smooth_l1_loss", "binary_cross_entropy")


def resized(name, func, args, kwargs):
    """The bytes that a result's storage has, where they are more than its own."""
    return _bytes(args[0]) if name in RESIZED and _reduced(func, args, kwargs) else 0


# Kernels that copy what does not lie in one piece, and how many of their first arguments
# (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/cuda/SoftMax.cu, host_softmax: input_.contiguous(), and host_softmax_backward;
# https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/layer_norm.cpp, layer_norm_cuda: X.expect_contiguous()).
IN_ONE_PIECE = {"_softmax": 1, "_log_softmax": 1, "_softmax_backward_data": 2, "_log_softmax_backward_data": 2, "native_layer_norm": 1, "native_layer_norm_backward": 2, "embedding_dense_backward": 1}
# Convolutions want all they read in one format, channels last where one of input and weight has it
# (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/ConvUtils.h, cudnn_conv_suggest_memory_format).
CONVOLUTIONS = {"convolution": 2, "convolution_backward": 3}


def _copies(name, args):
    """The bytes of what a kernel copies for its time."""
    if name in CONVOLUTIONS:
        torch, given = sys.modules["torch"], args[: CONVOLUTIONS[name]]
        last = any(map(_channels_last, given[-2:]))
        whole = lambda t: t.is_contiguous(memory_format=torch.channels_last) if last and t.dim() == 4 else t.is_contiguous()
        return [_bytes(t) for t in given if not whole(t)]
    if name == "native_batch_norm_backward":  # cuDNN's wants the gradient laid out as the input is (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/cudnn/BatchNorm.cpp)
        grad, x = args[:2]
        return [_bytes(grad)] if x.dim() >= 3 and grad.stride() != x.stride() and not (grad.is_contiguous() and x.is_contiguous()) else []
    return [_bytes(t) for t in args[: IN_ONE_PIECE.get(name, 0)] if hasattr(t, "is_contiguous") and not t.is_contiguous()]


def took(trace, func, args, kwargs, out, tainted, multiplied):
    """An operator ran: tell the trace what its kernel took for its own duration. multiplied: it was a product with a sparse matrix."""
    name = func.overloadpacket.__name__ if hasattr(func, "overloadpacket") else ""
    if name not in OF_INTEREST or not trace.counting or multiplied:
        return
    if name in RESIZED:
        trace.widen(out, resized(name, func, args, kwargs))
    sizes = _copies(name, args)
    if name in TEMPORARY:
        sizes += TEMPORARY[name](func, args, kwargs, out)
    numbers = trace.passing([size for size in sizes if size > 0], func, tainted)
    work = WORKS[name](func, args, kwargs, out) if name in WORKS else None
    if work is not None:
        trace.work(work, tainted)
    trace.passed(numbers)


def in_order(func, results):
    """Results in the order in which the kernel makes them: dropout's mask comes before what is left of its input
    (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/cuda/Dropout.cu, dropout_cuda)."""
    return results[::-1] if getattr(func, "overloadpacket", None) is not None and func.overloadpacket.__name__ == "native_dropout" else results


def took_apart(trace, func, args, out, tainted, begin):
    """A convolution's gradients are made one after the other, each with a workspace of its own: that of the input, then that of the weight
    (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/cudnn/ConvShared.cpp, cudnn_convolution_backward), then that of the bias. False: func is something else."""
    if getattr(func, "overloadpacket", None) is None or func.overloadpacket.__name__ != "convolution_backward" or not trace.counting:
        return False
    numbers = trace.passing(_copies("convolution_backward", args), func, tainted)
    for i, grad in enumerate(out):
        if grad is None:
            continue
        begin(grad)
        if i < 2:
            trace.work(_convolution_backward(func, (*args[:10], [i == 0, i == 1, False]), {}, out), tainted)
    trace.passed(numbers)
    return True


OF_INTEREST = frozenset(("native_batch_norm_backward", *WORKS, *TEMPORARY, *RESIZED, *IN_ONE_PIECE, *CONVOLUTIONS))
