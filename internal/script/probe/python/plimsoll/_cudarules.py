"""Lets operators on the CPU take the way they take on a GPU.

A trace runs on the CPU, on tensors without data. Where PyTorch chooses kernels by device, and the choice shows in memory, the GPU's choice is
made here: fused dropout and attention, cuDNN's recurrent networks, optimizers over lists of tensors, and autocast's lists of operators.
Registered once for the process with torch.library; a trace's process trains nothing for real.
"""
import warnings

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
    _dropout(torch, library)
    _attention(torch, library, capability)
    _recurrent(torch, library, trace)
    _norm(torch, library)
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


def _dropout(torch, library):
    """Dropout in training is one kernel that keeps a mask of booleans (aten/src/ATen/native/Dropout.cpp, is_fused_kernel_acceptable)."""
    noise = torch.ops.aten.native_dropout.default

    def dropout(x, p, train):
        if not train or p == 0:
            return x
        return torch.zeros_like(x) if p == 1 else noise(x, p, True)[0]

    library.impl("dropout", dropout, "AutogradCPU")


def _attention(torch, library, capability):
    """scaled_dot_product_attention by the backend a GPU takes (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp)."""
    aten = torch.ops.aten
    half = (torch.float16, torch.bfloat16)
    cuda = torch.backends.cuda
    backends = [getattr(cuda, name, lambda: False) for name in ("flash_sdp_enabled", "cudnn_sdp_enabled", "mem_efficient_sdp_enabled")]

    def attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
        if q.dim() != 4 or q.shape[-1] != k.shape[-1] or (not enable_gqa and q.shape[1] != k.shape[1]):
            return by_products(q, k, v, attn_mask, dropout_p, is_causal, scale, enable_gqa)
        learned = attn_mask is not None and attn_mask.requires_grad
        if attn_mask is not None and attn_mask.dtype is torch.bool:
            attn_mask = torch.where(attn_mask, 0.0, float("-inf")).to(q.dtype)
        grouped = enable_gqa and q.shape[1] != k.shape[1]
        flashes, cudnn, efficient = (allowed() for allowed in backends)  # as torch.nn.attention.sdpa_kernel left them
        if q.dtype in half and capability >= (8, 0) and not learned and q.shape[-1] <= 256:
            if attn_mask is None and not grouped and (flashes or cudnn):
                return flash(q, k, v, dropout_p, is_causal, scale)
            if cudnn or flashes and attn_mask is None:
                return Fused.apply(q, k, v, attn_mask)
        if grouped or not efficient:
            return by_products(q, k, v, attn_mask, dropout_p, is_causal, scale, enable_gqa)
        if attn_mask is not None:
            more = -attn_mask.shape[-1] % 8
            if more:  # rows begin at multiples of eight (aten/src/ATen/native/transformers/attention.cpp, pad_bias)
                attn_mask = torch.nn.functional.pad(attn_mask, (0, more))[..., : attn_mask.shape[-1]]
            attn_mask = attn_mask.expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2])
        out = aten._scaled_dot_product_efficient_attention(q, k, v, attn_mask, any(t.requires_grad for t in (q, k, v)), dropout_p, is_causal, scale=scale)
        return out[0]

    def flash(q, k, v, dropout_p, is_causal, scale):
        size = q.shape[-1]
        more = -size % 8
        if more:
            q, k, v = (torch.nn.functional.pad(t, (0, more)) for t in (q, k, v))
        out = aten._scaled_dot_product_flash_attention(q, k, v, dropout_p, is_causal, False, scale=scale)[0]
        return out[..., :size] if more else out

    def by_products(q, k, v, mask, dropout_p, is_causal, scale, enable_gqa):
        more = {"enable_gqa": True} if enable_gqa else {}
        return aten._scaled_dot_product_attention_math(q, k, v, mask, dropout_p, is_causal, None, scale=scale, **more)[0]

    class Fused(torch.autograd.Function):
        """A fused kernel with a mask, or with heads that share keys: keeps what it reads, its result and one fp32 number a row."""

        @staticmethod
        def forward(ctx, q, k, v, mask):
            out = torch.empty_like(q) if q.shape[-1] == v.shape[-1] else q.new_empty((*q.shape[:-1], v.shape[-1]))
            rows = q.new_empty(q.shape[:-1], dtype=torch.float32)
            ctx.save_for_backward(q, k, v, mask, out, rows)
            return out

        @staticmethod
        def backward(ctx, grad):
            q, k, v, _, _, _ = ctx.saved_tensors
            return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v), None

    library.impl("scaled_dot_product_attention", attention, "AutogradCPU")


def _norm(torch, library):
    """rms_norm is one kernel on a GPU, from 2.9 on, where input and weight have one type
    (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/layer_norm.cpp, rms_norm_symint and _fused_rms_norm)."""
    if tuple(int(n) for n in torch.__version__.split(".")[:2]) < (2, 9):
        return

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

    library.impl("rms_norm", rms_norm, "AutogradCPU")


def _recurrent(torch, library, trace):
    """LSTM, GRU and plain recurrent networks through cuDNN: one kernel that keeps a reserve for backward. What it takes is for the reader of the trace to say."""

    def layer(x, gates, layers, directions, dropout, train, steps, states, weights):
        """(steps, batch, features), and the numbers of the layer; steps are those of the longest of packed sequences, 0 where they are not packed."""
        batch, hidden = states[0].shape[1], weights[1].shape[0] // gates
        rows = x.shape[0] if steps else 0
        shape = (steps or x.numel() // (x.shape[-1] * batch), batch, x.shape[-1])
        projected = states[0].shape[-1]
        return shape, (gates, hidden, layers, directions, int(dropout), sum(w.numel() for w in weights), int(train), rows, projected if projected != hidden else 0)

    def ordered(t, batch_first):
        """cuDNN wants [steps, batch, features] in one piece."""
        return t.transpose(0, 1).contiguous() if batch_first else t.contiguous()

    class Cudnn(torch.autograd.Function):
        """_cudnn_rnn and _cudnn_rnn_backward (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/cudnn/RNN.cpp): the input of batch_first is copied in both;
        backward makes the gradients of input and states whether or not anyone asks for them, and zeros where none came."""

        @staticmethod
        def forward(ctx, x, gates, layers, directions, batch_first, dropout, train, steps, states, *tensors):
            hidden_states, weights = tensors[:states], tensors[states:]
            ctx.layer, ctx.batch_first = layer(x, gates, layers, directions, dropout, train, steps, hidden_states, weights), batch_first
            # flatten_parameters passes over bfloat16, so that the weights are packed in every forward pass (torch/backends/cudnn/__init__.py, CUDNN_TENSOR_DTYPES).
            packed = x.new_empty(sum(w.numel() for w in weights)) if x.dtype == torch.bfloat16 else None
            inputs = ordered(x, batch_first)
            out = x.new_empty((*inputs.shape[:-1], directions * hidden_states[0].shape[-1]))  # a projected state is narrower than the hidden one
            if batch_first:
                out = out.transpose(0, 1)
            last = tuple(h.new_empty(h.shape) for h in hidden_states)
            if train:
                reserve = trace.reserved(x, ctx.layer)
                ctx.save_for_backward(x, *hidden_states, *weights, out, reserve, packed)
            trace.worked("rnn", x, ctx.layer)
            ctx.shapes = [t.shape for t in (x, *hidden_states, *weights)]
            return (out, *last)

        @staticmethod
        def backward(ctx, grad, *last):
            x, *kept = ctx.saved_tensors
            states = kept[: len(last)]
            inputs = ordered(x, ctx.batch_first)
            into = None if grad is None else ordered(grad, ctx.batch_first)
            missing = [s.new_empty(s.shape) for s, g in zip(states, last) if g is None]
            like = x if grad is None else grad
            made = [like.new_empty(shape) if needed or i <= len(states) else None
                    for i, (shape, needed) in enumerate(zip(ctx.shapes, (ctx.needs_input_grad[0], *ctx.needs_input_grad[9:])))]
            trace.worked("rnn_backward", like, ctx.layer)
            del inputs, into, missing
            made = [m if needed else None for m, needed in zip(made, (ctx.needs_input_grad[0], *ctx.needs_input_grad[9:]))]
            return (made[0], *([None] * 8), *made[1:])

    def run(gates, x, states, weights, dropout, layers, train, bidirectional, batch_first, steps=0):
        if torch.is_autocast_enabled("cpu"):
            lower = torch.get_autocast_dtype("cpu")
            x, states, weights = x.to(lower), [s.to(lower) for s in states], [w.to(lower) for w in weights]
        return Cudnn.apply(x, gates, layers, 2 if bidirectional else 1, batch_first, train and dropout > 0, train, steps, len(states), *states, *weights)

    def lstm(x, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
        return run(4, x, hx, params, dropout, num_layers, train, bidirectional, batch_first)

    def single(gates):
        return lambda x, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first: run(
            gates, x, [hx], params, dropout, num_layers, train, bidirectional, batch_first)

    def lstm_packed(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional):
        return run(4, data, hx, params, dropout, num_layers, train, bidirectional, False, batch_sizes.numel())

    def single_packed(gates):
        return lambda data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional: run(
            gates, data, [hx], params, dropout, num_layers, train, bidirectional, False, batch_sizes.numel())

    library.impl("lstm.input", lstm, "AutogradCPU")
    library.impl("lstm.data", lstm_packed, "AutogradCPU")
    for name, gates in (("gru", 3), ("rnn_tanh", 1), ("rnn_relu", 1)):
        library.impl(f"{name}.input", single(gates), "AutogradCPU")
        library.impl(f"{name}.data", single_packed(gates), "AutogradCPU")
