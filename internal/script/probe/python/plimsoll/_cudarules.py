"""Lets operators on the CPU take the way they take on a GPU.

A trace runs on the CPU, on tensors without data. Where PyTorch chooses kernels by device, and the choice shows in memory, the GPU's choice is
made here: fused dropout and attention, cuDNN's recurrent networks, optimizers over lists of tensors, and autocast's lists of operators.
Registered once for the process with torch.library; a trace's process trains nothing for real.
"""
import warnings

from . import _attention, _recurrent

# Autocast on CUDA runs these in fp32 (aten/src/ATen/autocast_mode.h, AT_FORALL_FP32 and the lists after it:
# https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/autocast_mode.h#L717).
FP32 = """acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow softplus layer_norm native_layer_norm group_norm
frobenius_norm nuclear_norm cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss kl_div l1_loss
smooth_l1_loss huber_loss mse_loss margin_ranking_loss multilabel_margin_loss soft_margin_loss triplet_margin_loss multi_margin_loss
binary_cross_entropy_with_logits dist pdist cdist renorm logsumexp norm""".split()
# These are told to give fp32, unless they are told a type already: cross_entropy tells log_softmax that of the logits.
FP32_RESULT = ("prod", "softmax", "log_softmax", "cumprod", "cumsum", "linalg_vector_norm", "linalg_matrix_norm", "sum")
# These run in 16 bit, on either list. What else the CPU's autocast has a kernel for (cross_entropy_loss, padding, pooling …) runs in the type it is given.
LOWER = """_convolution conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convolution prelu addmm addmv addr matmul einsum mm mv
linalg_vecdot linear addbmm baddbmm bmm chain_matmul linalg_multi_dot scaled_dot_product_attention _scaled_dot_product_flash_attention""".split()
PROMOTED = ("stack", "cat", "index_copy", "addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "vdot", "grid_sampler", "index_put", "tensordot", "scatter_add")

_libraries = []  # kernels live as long as these


def install(torch, capability, trace):
    library = torch.library.Library("aten", "IMPL")
    _libraries.append(library)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns of kernels that take another's place
        _install(torch, library, capability, trace)


def _install(torch, library, capability, trace):
    _autocast(torch, library)
    ours = {"dropout": _dropout(torch), "scaled_dot_product_attention": _attention.function(torch, capability), **_recurrent.functions(torch, trace), **_norm(torch), "group_norm": _group_norm(torch), "batch_norm": _batch_norm(torch), "linear": _linear(torch), **_softmax(torch)}
    for name, function in ours.items():
        library.impl(name, function, "AutogradCPU")
        packet, _, overload = name.partition(".")
        trace.ours[getattr(getattr(torch.ops.aten, packet), overload or "default")] = function
    trace.sparse.embedding_gradient(library)
    _lists(torch)


def _lists(torch):
    """Optimizers and clipping work on whole lists of tensors where these are on a GPU (torch/utils/_foreach_utils.py)."""
    import torch.optim.optimizer as optimizers
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.utils import _foreach_utils

    original = _foreach_utils._get_foreach_kernels_supported_devices
    supported = lambda: [*original(), "cpu"]
    for module in (_foreach_utils, optimizers):
        if hasattr(module, "_foreach_supported_types"):
            module._foreach_supported_types.append(FakeTensor)
        if hasattr(module, "_get_foreach_kernels_supported_devices"):
            module._get_foreach_kernels_supported_devices = supported


def _autocast(torch, library):
    """torch.autocast("cuda") casts for tensors that are on the CPU in truth, by CUDA's lists."""
    kind = torch.autocast
    enter, leave = kind.__enter__, kind.__exit__

    def __enter__(context):
        made = enter(context)
        if context.device == "cuda":
            stack = context.__dict__.setdefault("_plimsoll_before", [])
            stack.append((torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")))
            torch.set_autocast_enabled("cpu", bool(context._enabled))
            torch.set_autocast_dtype("cpu", context.fast_dtype)
        return made

    def __exit__(context, *failure):
        if context.device == "cuda" and context.__dict__.get("_plimsoll_before"):
            enabled, dtype = context._plimsoll_before.pop()
            torch.set_autocast_enabled("cpu", enabled)
            torch.set_autocast_dtype("cpu", dtype)
        return leave(context, *failure)

    kind.__enter__, kind.__exit__ = __enter__, __exit__
    outside = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
    cpus = {name.partition("::")[2].partition(".")[0] for name in torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCPU") if name.startswith("aten::")}
    for name in (*FP32, *FP32_RESULT, *sorted(cpus - {*FP32, *FP32_RESULT, *LOWER, *PROMOTED})):
        packet = getattr(torch.ops.aten, name, None)
        for overload in packet.overloads() if packet is not None else ():
            if "out" in overload:
                continue
            operator = getattr(packet, overload)
            spelled = name if overload == "default" else f"{name}.{overload}"
            try:
                kernel = _kernel(torch, operator, outside, name) if name in (*FP32, *FP32_RESULT) else torch.library.fallthrough_kernel
                library.impl(spelled, kernel, "AutocastCPU")
            except RuntimeError:  # a name that autocast knows by another kernel in this version
                pass


def _kernel(torch, operator, outside, name):
    """Autocast's kernel of an operator: arguments in fp32, a result in fp32, or all as given."""
    half = (torch.float16, torch.bfloat16)
    place = next((i for i, a in enumerate(operator._schema.arguments) if a.name == "dtype"), None)

    def cast(value):
        if name in FP32 and isinstance(value, torch.Tensor) and value.dtype in half:
            return value.float()
        return [cast(v) for v in value] if isinstance(value, list) else value

    def kernel(*args, **kwargs):
        if name in FP32_RESULT and place is not None and args[0].dtype in half:
            if place < len(args) and not operator._schema.arguments[place].kwarg_only:
                args = (*args[:place], args[place] or torch.float32, *args[place + 1:])
            else:
                kwargs = {**kwargs, "dtype": kwargs.get("dtype") or torch.float32}
        with torch._C._ExcludeDispatchKeyGuard(outside):
            return operator(*map(cast, args), **{k: cast(v) for k, v in kwargs.items()})

    return kernel


def _dropout(torch):
    """Dropout in training is one kernel that keeps a mask of booleans (aten/src/ATen/native/Dropout.cpp, is_fused_kernel_acceptable)."""
    noise = torch.ops.aten.native_dropout.default

    def dropout(x, p, train):
        if not train or p == 0:
            return x
        return torch.zeros_like(x) if p == 1 else noise(x, p, True)[0]

    return dropout


def _norm(torch):
    """rms_norm is one kernel on a GPU, from 2.9 on, where input and weight have one type
    (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/layer_norm.cpp, rms_norm_symint and _fused_rms_norm)."""
    if tuple(int(n) for n in torch.__version__.split(".")[:2]) < (2, 9):
        return {}

    class Fused(torch.autograd.Function):
        """Keeps what it reads and one fp32 number a row."""

        @staticmethod
        def forward(ctx, x, weight, dims):
            whole = x.contiguous()  # the kernels read no others (layer_norm_kernel.cu, expect_contiguous)
            out = torch.empty(x.shape, dtype=x.dtype)
            rows = torch.empty(x.shape[: x.dim() - dims], dtype=torch.float32)
            ctx.save_for_backward(x, weight, rows)
            return out

        @staticmethod
        def backward(ctx, grad):
            x, weight, _ = ctx.saved_tensors
            whole = grad.contiguous(), x.contiguous()
            made = torch.empty(x.shape, dtype=x.dtype) if ctx.needs_input_grad[0] else None
            return made, torch.empty(weight.shape, dtype=weight.dtype) if ctx.needs_input_grad[1] else None, None

    def by_parts(x, shape, weight, eps):
        scale = torch.rsqrt(x.float().pow(2).mean([-i - 1 for i in range(len(shape))], keepdim=True) + (eps or 1e-6))
        out = (x.float() * scale).to(x.dtype)
        return out if weight is None else out * weight

    def rms_norm(x, normalized_shape, weight=None, eps=None):
        if weight is not None and weight.dtype != x.dtype:
            return by_parts(x, normalized_shape, weight, eps)
        return Fused.apply(x, weight, len(normalized_shape))

    return {"rms_norm": rms_norm}


def _group_norm(torch):
    """The input is laid out in one piece, and that is what is kept (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/group_norm.cpp, group_norm)."""

    def group_norm(x, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
        x = x.contiguous()
        batch, channels = x.shape[0], x.shape[1]
        return torch.ops.aten.native_group_norm(x, weight, bias, batch, channels, x.numel() // max(batch * channels, 1), num_groups, eps)[0]

    return group_norm


def _batch_norm(torch):
    """cuDNN's kernel reads an input in one piece, and that is what is kept for backward
    (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/Normalization.cpp, _select_batch_norm_backend and _batch_norm_impl_index: input.contiguous(input.suggest_memory_format()))."""
    from torch._prims_common import suggest_memory_format

    def by_cudnn(x, weight, bias, mean, var, training, enabled):
        if not enabled or x.dim() < 3 or weight is None or bias is None or x.dtype is torch.bfloat16 or weight.dtype is torch.bfloat16 or x.dtype is torch.float16 and weight.dtype is not torch.float32:
            return False
        return ((mean is None) == (var is None)) and (mean is not None or training) and x.shape[0] <= (880801 if training else 65535)

    def batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled):
        if by_cudnn(x, weight, bias, running_mean, running_var, training, cudnn_enabled):
            x = x.contiguous(memory_format=suggest_memory_format(x))
        return torch.ops.aten.native_batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps)[0]

    return batch_norm


def _softmax(torch):
    """float16 becomes fp32 inside the kernel (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/SoftMax.cpp, softmax: half_to_float)."""

    def made(kernel):
        def softmax(x, dim, dtype=None):
            inside = x.dtype is torch.float16 and dtype is torch.float32
            return kernel(x if inside or dtype is None else x.to(dtype), dim, inside)

        return softmax

    return {"softmax.int": made(torch.ops.aten._softmax), "log_softmax.int": made(torch.ops.aten._log_softmax)}


def _linear(torch):
    """The bias is part of the product where the input has two dimensions, or three in one piece, and is added in place to others; tensors like those of a trace get a copy instead
    (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/Linear.cpp, linear)."""

    def linear(x, weight, bias=None):
        if bias is not None and (x.dim() == 2 or x.dim() == 3 and x.is_contiguous()):
            out = torch.ops.aten.addmm(bias, x.reshape(-1, x.shape[-1]), weight.t())
            return out if x.dim() == 2 else out.view(*x.shape[:-1], out.shape[-1])
        out = x.matmul(weight.t())
        return out if bias is None else out.add_(bias)

    return linear
