"""Recurrent networks as a GPU runs them: LSTM, GRU and RNN through cuDNN, one kernel that keeps a reserve for backward, and single cells by one kernel for all gates.

What cuDNN takes is for the reader of the trace to say (internal/model/cudnn, recurrent.go).
"""


def functions(torch, trace):
    """By name of the operator: what stands for it."""
    made = {"lstm.input": _lstm(torch, trace, False), "lstm.data": _lstm(torch, trace, True), "lstm_cell": _lstm_cell(torch), "gru_cell": _gru_cell(torch)}
    for name, gates in (("gru", 3), ("rnn_tanh", 1), ("rnn_relu", 1)):
        made[f"{name}.input"] = _single(torch, trace, gates, False)
        made[f"{name}.data"] = _single(torch, trace, gates, True)
    return made


def install(torch, trace):
    """flatten_parameters, which every move of a recurrent layer to a GPU calls and many scripts call in every forward pass: all weights are copied into a new buffer, and become parts of it
    (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/cudnn/RNN.cpp, _cudnn_rnn_flatten_weight and copy_weights_to_flat_buf_views). bfloat16 is passed over."""

    def flatten_parameters(layer):
        weights = layer._flat_weights
        if len(weights) != len(layer._flat_weights_names) or not weights or len(set(map(id, weights))) != len(weights):
            return
        if not all(isinstance(w, trace.FakeTensor) and trace.places.on_gpu(w) for w in weights) or len({w.dtype for w in weights}) > 1 or weights[0].dtype not in flattened:
            return
        with torch.no_grad(), trace.recording("parameters"):
            for weight, part in zip(weights, _parts(torch.empty(sum(w.numel() for w in weights), dtype=weights[0].dtype), [w.shape for w in weights])):
                weight.data = part

    flattened = (torch.float16, torch.float32, torch.float64)
    torch.nn.RNNBase.flatten_parameters = flatten_parameters


def _lstm(torch, trace, packed):
    run = _cudnn(torch, trace)
    if packed:
        return lambda data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional: run(
            4, data, hx, params, dropout, num_layers, train, bidirectional, False, batch_sizes.numel())
    return lambda x, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first: run(4, x, hx, params, dropout, num_layers, train, bidirectional, batch_first)


def _single(torch, trace, gates, packed):
    run = _cudnn(torch, trace)
    if packed:
        return lambda data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional: run(
            gates, data, [hx], params, dropout, num_layers, train, bidirectional, False, batch_sizes.numel())
    return lambda x, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first: run(gates, x, [hx], params, dropout, num_layers, train, bidirectional, batch_first)


def _layer(x, gates, layers, directions, dropout, train, steps, states, weights):
    """(steps, batch, features), and the numbers of the layer; steps are those of the longest of packed sequences, 0 where they are not packed."""
    batch, hidden = states[0].shape[1], weights[1].shape[0] // gates
    rows = x.shape[0] if steps else 0
    shape = (steps or x.numel() // (x.shape[-1] * batch), batch, x.shape[-1])
    projected = states[0].shape[-1]
    return shape, (gates, hidden, layers, directions, int(dropout), sum(w.numel() for w in weights), int(train), rows, projected if projected != hidden else 0)


def _ordered(t, batch_first):
    """cuDNN wants [steps, batch, features] in one piece."""
    return t.transpose(0, 1).contiguous() if batch_first else t.contiguous()


def _parts(flat, shapes):
    """Views of one buffer, one behind the other (_viewParams)."""
    made, at = [], 0
    for shape in shapes:
        made.append(flat[at : at + shape.numel()].view(shape))
        at += shape.numel()
    return made


def _cudnn(torch, trace):
    class Cudnn(torch.autograd.Function):
        """_cudnn_rnn and _cudnn_rnn_backward (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/cudnn/RNN.cpp): the input of batch_first is copied in both;
        backward makes the gradients of input and states whether or not anyone asks for them, zeros where none came, and after that those of all weights as parts of one buffer (_cudnn_rnn_backward_input, _cudnn_rnn_backward_weight)."""

        @staticmethod
        def forward(ctx, x, gates, layers, directions, batch_first, dropout, train, steps, states, *tensors):
            hidden_states, weights = tensors[:states], tensors[states:]
            ctx.layer, ctx.batch_first = _layer(x, gates, layers, directions, dropout, train, steps, hidden_states, weights), batch_first
            # flatten_parameters passes over bfloat16, so that the weights are packed in every forward pass (torch/backends/cudnn/__init__.py, CUDNN_TENSOR_DTYPES).
            packed = x.new_empty(sum(w.numel() for w in weights)) if x.dtype == torch.bfloat16 else None
            inputs = _ordered(x, batch_first)
            out = x.new_empty((*inputs.shape[:-1], directions * hidden_states[0].shape[-1]))  # a projected state is narrower than the hidden one
            if batch_first:
                out = out.transpose(0, 1)
            last = tuple(h.new_empty(h.shape) for h in hidden_states)
            if train:
                reserve = trace.reserved(x, ctx.layer)
                ctx.save_for_backward(x, *hidden_states, *weights, out, reserve, packed)
            trace.worked("rnn", x, ctx.layer)
            ctx.shapes, ctx.states = [t.shape for t in (x, *hidden_states, *weights)], states
            return (out, *last)

        @staticmethod
        def backward(ctx, grad, *last):
            x, *kept = ctx.saved_tensors
            states = kept[: len(last)]
            inputs = _ordered(x, ctx.batch_first)
            into = None if grad is None else _ordered(grad, ctx.batch_first)
            missing = [s.new_empty(s.shape) for s, g in zip(states, last) if g is None]
            like = x if grad is None else grad
            needs = (ctx.needs_input_grad[0], *ctx.needs_input_grad[9:])
            made = [like.new_empty(shape) for shape in ctx.shapes[: 1 + ctx.states]]
            trace.worked("rnn_backward", like, ctx.layer)  # of input and states; then of weights, where the gradient of the output is no longer read
            del inputs, into, missing
            shapes = ctx.shapes[1 + ctx.states :]
            if any(needs[1 + ctx.states :]):
                inputs = _ordered(x, ctx.batch_first)
                made += _parts(trace.parted(like.new_empty(sum(s.numel() for s in shapes))), shapes)
                trace.worked("rnn_backward", like, ctx.layer)
                del inputs
            made += [None] * (len(ctx.shapes) - len(made))
            made = [m if needed else None for m, needed in zip(made, needs)]
            return (made[0], *([None] * 8), *made[1:])

    def run(gates, x, states, weights, dropout, layers, train, bidirectional, batch_first, steps=0):
        if torch.is_autocast_enabled("cpu"):
            lower = torch.get_autocast_dtype("cpu")
            x, states, weights = x.to(lower), [s.to(lower) for s in states], [w.to(lower) for w in weights]
        return Cudnn.apply(x, gates, layers, 2 if bidirectional else 1, batch_first, train and dropout > 0, train, steps, len(states), *states, *weights)

    return run


# Cells (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/RNN.cpp, LSTMCell and GRUCell: on a GPU two products without their biases, then one kernel;
# https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/cuda/RNN.cu, what it keeps and gives back)


def _lowered(torch, tensors):
    """As autocast hands them over; they are on its list for CUDA alone."""
    if not torch.is_autocast_enabled("cpu"):
        return tensors
    lower = torch.get_autocast_dtype("cpu")
    return [t if t is None or not t.is_floating_point() else t.to(lower) for t in tensors]


def _products(x, h, w_ih, w_hh):
    return x.matmul(w_ih.t()), h.matmul(w_hh.t())


def _sums(grad, biased):
    return grad.sum(0) if biased else None


def _lstm_cell(torch):
    class Cell(torch.autograd.Function):
        @staticmethod
        def forward(ctx, inputs, hidden, cx, b_ih, b_hh):
            gates = inputs.new_empty(inputs.shape)
            hy, cy = cx.new_empty(cx.shape), cx.new_empty(cx.shape)
            ctx.biased = b_ih is not None
            ctx.save_for_backward(inputs, hidden, cx, b_ih, b_hh, cy, gates)
            return hy, cy

        @staticmethod
        def backward(ctx, *_):
            _, _, cx, _, _, _, gates = ctx.saved_tensors
            grad, of_cx = gates.new_empty(gates.shape), cx.new_empty(cx.shape)
            bias = _sums(grad, ctx.biased)
            return grad, grad, of_cx, bias, bias

    def lstm_cell(x, hx, w_ih, w_hh, b_ih=None, b_hh=None):
        x, h, c, w_ih, w_hh, b_ih, b_hh = _lowered(torch, [x, *hx, w_ih, w_hh, b_ih, b_hh])
        return Cell.apply(*_products(x, h, w_ih, w_hh), c, b_ih, b_hh)

    return lstm_cell


def _gru_cell(torch):
    class Cell(torch.autograd.Function):
        @staticmethod
        def forward(ctx, inputs, hidden, hx, b_ih, b_hh):
            kept, hy = hx.new_empty((hx.shape[0], 5 * hx.shape[1])), hx.new_empty(hx.shape)
            ctx.biased = b_ih is not None
            ctx.save_for_backward(inputs, hidden, hx, b_ih, b_hh, kept)
            return hy

        @staticmethod
        def backward(ctx, grad):
            inputs, hidden, hx = ctx.saved_tensors[:3]
            made = [inputs.new_empty(inputs.shape), hidden.new_empty(hidden.shape), hx.new_empty(hx.shape)]
            return *made, _sums(made[0], ctx.biased), _sums(made[1], ctx.biased)

    def gru_cell(x, hx, w_ih, w_hh, b_ih=None, b_hh=None):
        x, hx, w_ih, w_hh, b_ih, b_hh = _lowered(torch, [x, hx, w_ih, w_hh, b_ih, b_hh])
        return Cell.apply(*_products(x, hx, w_ih, w_hh), hx, b_ih, b_hh)

    return gru_cell
