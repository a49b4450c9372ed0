"""Shapes of operators whose own descriptions in PyTorch refuse on the CPU what a GPU takes, or that have none.

Tensors without data lie on the CPU in a capture or a trace. Two operators of every mixture of experts are described for them as narrowly as the CPU's kernels are.
Kernels that only GPUs have are not described at all: cuDNN's grid_sample, and the cells of recurrent layers, which run all gates at once.
"""
import warnings

_libraries = []  # kernels live as long as these


def install(torch):
    """Put the GPU's descriptions in their place, once for the process."""
    import torch._meta_registrations as shapes

    if hasattr(shapes, "_meta_grouped_mm_common"):
        shapes._meta_grouped_mm_common = grouped_mm
    library = torch.library.Library("aten", "IMPL")
    _libraries.append(library)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns of kernels that take another's place
        getattr(torch.library, "_impls", set()).discard("aten/histc/Meta")  # PyTorch allows one kernel of Python's, and has its own
        library.impl("histc", histc, "Meta")
        for name, shape in GPU_ONLY.items():
            if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "Meta"):
                library.impl(name, shape, "Meta")


def histc(x, bins=100, min=0, max=0):
    """Integers too: https://github.com/pytorch/pytorch/blob/v2.11.0/torch/_meta_registrations.py refuses them for the CPU."""
    return x.new_empty(bins)


def grouped_mm(mat_a, mat_b, *args, offs=None, out_dtype=None, **kwargs):
    """The result of a grouped product; PyTorch's own description refuses fp32, which its kernels take."""
    dtype = out_dtype or mat_a.dtype
    if mat_a.dim() == 2 and mat_b.dim() == 2:
        return mat_a.new_empty(offs.shape[0], mat_a.shape[0], mat_b.shape[1], dtype=dtype)
    if mat_a.dim() == 2 or mat_b.dim() == 2:
        return mat_a.new_empty(mat_a.shape[-2], mat_b.shape[-1], dtype=dtype)
    return mat_a.new_empty(mat_a.shape[0], mat_a.shape[1], mat_b.shape[2], dtype=dtype)


def recurrent(torch, put):
    """LSTM, GRU and RNN are one operator on a GPU (cuDNN): their results follow from sizes alone, where PyTorch's own description runs through every step of the sequence.

    https://github.com/pytorch/pytorch/blob/v2.11.0/torch/_decomp/decompositions.py, lstm_impl
    """

    def results(x, states, bidirectional, batch_first):
        width = states[0].shape[-1] * (2 if bidirectional else 1)
        out = x.new_empty(x.shape[1], x.shape[0], width).transpose(0, 1) if batch_first else x.new_empty(*x.shape[:-1], width)
        return (out, *(s.new_empty(s.shape) for s in states))

    def lstm(x, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
        return results(x, hx, bidirectional, batch_first)

    def single(x, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
        return results(x, [hx], bidirectional, batch_first)

    for name, function in (("lstm", lstm), ("gru", single), ("rnn_tanh", single), ("rnn_relu", single)):
        operator = getattr(torch.ops.aten, name).input
        put(operator, "py_kernels", {key: function for key in operator.py_kernels})
        put(operator, "_dispatch_cache", {})


def grid_sampled(x, grid):
    """https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/cudnn/GridSampler.cpp, cudnn_grid_sampler_forward"""
    return x.new_empty(grid.shape[0], x.shape[1], grid.shape[1], grid.shape[2])


def gru_cell(input_gates, hidden_gates, hx, input_bias=None, hidden_bias=None):
    """The state, and the gates that backward reads: https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/cuda/RNN.cu, _thnn_fused_gru_cell_cuda"""
    return hx.new_empty(hx.shape), hx.new_empty(hx.shape[0], 5 * hx.shape[1])


def lstm_cell(input_gates, hidden_gates, cx, input_bias=None, hidden_bias=None):
    """Both states, and the gates: RNN.cu, _thnn_fused_lstm_cell_cuda"""
    return cx.new_empty(cx.shape), cx.new_empty(cx.shape), input_gates.new_empty(input_gates.shape)


GPU_ONLY = {"cudnn_grid_sampler": grid_sampled, "_thnn_fused_gru_cell": gru_cell, "_thnn_fused_lstm_cell": lstm_cell}
