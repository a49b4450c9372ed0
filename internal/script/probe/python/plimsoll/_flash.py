"""The functions of flash-attn 2 for models that are read on a machine without it: one operator, whose result is as large as the query.

What they keep and take is told by whoever reads the graph (internal/model/eager/attention_flash.go). Their parameters are those of
https://github.com/Dao-AILab/flash-attention/blob/v2.8.3/flash_attn/flash_attn_interface.py, by which transformers finds out what they can do.
"""
NAME = "flash_attention_2"
SCHEMA = "flash_attention(Tensor query, Tensor key, Tensor value, int samples, float dropout_p, bool is_causal) -> Tensor"
_kept = []  # a library's operators live as long as it does


def operator(torch):
    """The operator, defined once in a process."""
    if not _kept:
        library = torch.library.Library("plimsoll", "FRAGMENT")
        library.define(SCHEMA)
        library.impl("flash_attention", lambda query, key, value, samples, dropout_p, is_causal: torch.empty_like(query), "Meta")
        _kept.append(library)
    return torch.ops.plimsoll.flash_attention.default


def functions(torch):
    """flash_attn_func and flash_attn_varlen_func."""
    call = operator(torch)

    def checked(*tensors):
        for t in tensors:
            if t.dtype not in (torch.float16, torch.bfloat16):
                raise RuntimeError("FlashAttention only support fp16 and bf16 data type")  # as the library says it
            if t.shape[-1] > 256:
                raise RuntimeError("FlashAttention forward only supports head dimension at most 256")
        return [t if t.stride(-1) == 1 else t.contiguous() for t in tensors]

    def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None, deterministic=False, return_attn_probs=False):
        return call(*checked(q, k, v), 0, float(dropout_p), bool(causal))

    def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None,
                               deterministic=False, return_attn_probs=False, block_table=None):
        return call(*checked(q, k, v), cu_seqlens_q.numel() - 1, float(dropout_p), bool(causal))

    return flash_attn_func, flash_attn_varlen_func


def install(torch, transformers, put):
    """Lets models be built with flash_attention_2; put(owner, name, value) replaces something for as long as a model is read."""
    try:
        import transformers.modeling_flash_attention_utils as utils
    except ImportError:
        return
    made = functions(torch)
    put(utils, "_lazy_imports", lambda *args, **kwargs: (*made, None, utils._pad_input, utils._unpad_input))
    put(utils, "_loaded_implementation", None)
    put(transformers.PreTrainedModel, "_flash_attn_import_error", lambda *args, **kwargs: None)


def equip(cls):
    """Gives the module of a model's class what it imports only where flash-attn is installed (Falcon, GPT-J, GPT-Neo)."""
    import sys

    import transformers.modeling_flash_attention_utils as utils

    module = sys.modules[cls.__module__]
    for name in ("_flash_attention_forward", "flash_attn_supports_top_left_mask"):
        if not hasattr(module, name) and hasattr(utils, name):
            setattr(module, name, getattr(utils, name))
