"""scaled_dot_product_attention as a GPU runs it: by the backend that it takes, with what each backend keeps for its backward pass and takes for its own use there.

The choice follows https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/transformers/cuda/sdp_utils.cpp and sdp_utils_cpp.h beside it; what the kernels
allocate follows attention.cu and attention_backward.cu there, and for cuDNN measurements on an H200. The rules of captured steps are the same: internal/model/eager, attention.go.
"""
CUDNN, FLASH, EFFICIENT, PRODUCTS = "cudnn", "flash", "efficient", "products"
CUDNN_FIRST = ((9, 0), (10, 0), (10, 3))  # from PyTorch 2.10 on, whose wheels bring cuDNN 9.15


def function(torch, capability):
    """What stands for the operator."""
    half = (torch.float16, torch.bfloat16)
    release = tuple(int(n) for n in torch.__version__.split(".")[:2])
    first = capability in CUDNN_FIRST and release >= (2, 10)
    cuda, aten = torch.backends.cuda, torch.ops.aten
    allowed = {kind: getattr(cuda, name, lambda: False) for kind, name in ((FLASH, "flash_sdp_enabled"), (CUDNN, "cudnn_sdp_enabled"), (EFFICIENT, "mem_efficient_sdp_enabled"))}
    kernel = _kernel(torch)

    def backend(q, k, v, mask, causal, shares):
        """The first backend of the order that takes these tensors."""
        if q.dim() != 4 or not all(q.shape[2:3] + k.shape[2:3]) or any(t.stride(-1) != 1 for t in (q, k, v, mask) if t is not None):
            return PRODUCTS
        if q.shape[0] != k.shape[0] or not shares and q.shape[1] != k.shape[1] or q.shape[-1] != k.shape[-1]:
            return PRODUCTS
        grouped, size = q.shape[1] != k.shape[1], q.shape[-1]
        if q.dtype in half and capability >= (8, 0) and not (mask is not None and mask.requires_grad) and size <= 256:
            if first and allowed[CUDNN]() and size % 8 == 0 and v.shape[-1] % 8 == 0:
                return CUDNN
            if allowed[FLASH]() and mask is None and v.shape[-1] == size and not (causal and q.shape[2] != k.shape[2]):
                return FLASH
        step = 8 if q.dtype in half else 4
        if allowed[EFFICIENT]() and not grouped and q.dtype in (*half, torch.float32) and size % step == 0 and v.shape[-1] % step == 0:
            return EFFICIENT
        return PRODUCTS

    def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
        q, k, v, mask = query, key, value, attn_mask
        if mask is not None and mask.dtype is torch.bool:
            mask = q.new_empty(mask.shape)  # convert_boolean_attn_mask
        kind = backend(q, k, v, mask, is_causal, enable_gqa)
        if kind is PRODUCTS:
            more = {"enable_gqa": True} if enable_gqa else {}
            return aten._scaled_dot_product_attention_math(q, k, v, mask, dropout_p, is_causal, None, scale=scale, **more)[0]
        if kind is EFFICIENT and mask is not None:
            length = mask.shape[-1]
            if any(s % 8 for s in mask.stride()[:-1]):  # rows begin at multiples of eight (pad_bias)
                mask = torch.nn.functional.pad(mask, (0, 8 - length % 8))[..., :length]
            mask = mask.expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2])
        if torch._C._functorch.peek_interpreter_stack() is not None:  # functions of Python's own have no rules under torch.func
            if kind is EFFICIENT:
                return aten._scaled_dot_product_efficient_attention(q, k, v, mask, True, dropout_p, is_causal, scale=scale)[0]
            return aten._scaled_dot_product_flash_attention(q, k, v, dropout_p, is_causal, False, scale=scale)[0]
        size = q.shape[-1]
        more = -size % 8 if kind is FLASH else 0
        if more:
            q, k, v = (torch.nn.functional.pad(t, (0, more)) for t in (q, k, v))
        keeps = torch.is_grad_enabled() and any(t.requires_grad for t in (q, k, v))
        out = kernel.apply(q, k, v, mask, kind, keeps)
        return out[..., :size] if more else out

    return attention


def _kernel(torch):
    single = torch.float32

    class Fused(torch.autograd.Function):
        """Keeps what it reads, its result, one fp32 number a row and the state of its random numbers."""

        @staticmethod
        def forward(ctx, q, k, v, mask, kind, keeps):
            batch, heads, rows, _ = q.shape
            state = {CUDNN: lambda: [q.new_empty((), dtype=torch.int64), q.new_empty((), dtype=torch.int64)], FLASH: lambda: [q.new_empty(2, dtype=torch.int64)]}.get(kind, list)()
            if kind is EFFICIENT:
                out = q.new_empty((batch, rows, heads, v.shape[-1])).transpose(1, 2)
                sums = q.new_empty((batch, heads, -(-rows // 32) * 32 if keeps else 0), dtype=single)
            else:
                out = torch.empty_like(q) if v.shape[-1] == q.shape[-1] else q.new_empty((*q.shape[:-1], v.shape[-1]))
                sums = q.new_empty((batch, heads, rows), dtype=single)
            ctx.kind = kind
            ctx.save_for_backward(q, k, v, mask, out, sums, *state)
            return out

        @staticmethod
        def backward(ctx, grad):
            q, k, v, mask, out = ctx.saved_tensors[:5]
            kind, copies = ctx.kind, []
            if kind is not CUDNN:
                copies.append(_by_rows(grad))
            if kind is FLASH:
                copies.append(_by_rows(out))
            made = [t.new_empty((t.shape[0], t.shape[2], t.shape[1], t.shape[3])).transpose(1, 2) if kind is EFFICIENT else torch.empty_like(t) for t in (q, k, v)]
            of_mask = None
            if mask is not None and ctx.needs_input_grad[3]:  # in rows of sixteen
                of_mask = mask.new_empty((*mask.shape[:-1], -(-mask.shape[-1] // 16) * 16))[..., : mask.shape[-1]]
            _own_use(q, k, kind)
            return *(m if needed else None for m, needed in zip(made, ctx.needs_input_grad)), of_mask, None, None

    def _own_use(q, k, kind):
        """What a kernel takes for the time of a backward pass."""
        batch, heads, rows, size = q.shape
        if kind is CUDNN:  # fp32 sums of the query's gradient and of rows; heads that share keys add expanded gradients
            more = 2 * 2 * batch * heads * k.shape[2] * size if heads != k.shape[1] else 0
            q.new_empty(batch * heads * rows * 4 * (size + 1) + 256 + more, dtype=torch.uint8)
        elif kind is FLASH:  # softmax_d and dq_accum (flash_api.cpp, mha_bwd)
            padded, width = -(-rows // 128) * 128, 256 if size >= 224 else -(-size // 32) * 32
            sums, wide = q.new_empty((batch, heads, padded), dtype=single), q.new_empty((batch, padded, heads, width), dtype=single)
            if heads != k.shape[1]:
                expanded = [q.new_empty((batch, k.shape[2], heads, size)) for _ in range(2)]
        else:  # rows of gradient times result, then fp32 sums of the query's gradient in blocks of 64 rows
            product = [q.new_empty((batch, rows, heads, n), dtype=single) for n in (size, 1)] if q.dtype is single else []
            delta = q.new_empty((batch, heads, rows), dtype=single)
            del product
            q.new_empty((batch, heads, -(-rows // 64) * 64 * -(-size // 64) * 64 + 16), dtype=single)

    def _by_rows(t):
        """A copy as [batch, rows, heads, size], where it does not lie so."""
        return None if t.transpose(1, 2).is_contiguous() else t.transpose(1, 2).contiguous()

    return Fused
