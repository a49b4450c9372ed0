"""Operators one by one, forward and backward, with a mark before each pass: operators.json has what an H200 allocated between the marks."""
import torch
import torch.nn as nn
import torch.nn.functional as F

MARK = 7_000_001  # bytes of the first mark; nothing else is about as large
h = torch.float16
A = F.scaled_dot_product_attention


def amp(fn, x):
    with torch.autocast("cuda", h):
        return fn(x)


def steps(m, x):
    state, outs = torch.zeros(1, 1, 256, device="cuda"), []
    for t in x:
        out, state = m(t[None], state)
        outs.append(out)
    return torch.cat(outs)


def cells(m, x):
    state, outs = None, []
    for t in x:
        state = m(t, state)
        outs.append(state[0] if isinstance(state, tuple) else state)
    return torch.stack(outs)


def infer(fn, x):
    with torch.inference_mode():
        return fn(x)


x2, img, seq = (4096, 512), (16, 64, 56, 56), (16, 128, 512)
real = lambda *s, dtype=torch.float32: lambda: torch.randn(*s, device="cuda", dtype=dtype).requires_grad_()
below = lambda high, *s: lambda: torch.randint(0, high, s, device="cuda")
last = lambda *s: lambda: torch.randn(*s, device="cuda").to(memory_format=torch.channels_last).requires_grad_()
heads = lambda d, dtype=torch.float32, s=200: [real(8, 8, s, d, dtype=dtype)] * 3
CASES = {
    "softmax": (lambda t: t.softmax(-1), real(*x2)), "logsumexp": (lambda t: t.logsumexp(-1), real(*x2)), "softmax_half_f32": (lambda t: t.softmax(-1, dtype=torch.float32), real(*x2, dtype=h)),
    "max_dim": (lambda t: t.max(-1)[0], real(*x2)), "amax": (lambda t: t.amax(-1), real(*x2)), "sort": (lambda t: t.sort(-1)[0], real(*x2)), "topk": (lambda t: t.topk(8, -1)[0], real(*x2)),
    "logsigmoid": (F.logsigmoid, real(*x2)), "var_last": (lambda t: t.var(-1), real(*x2)), "var_first": (lambda t: t.var(0), real(*x2)), "normalize": (lambda t: F.normalize(t, dim=-1), real(*x2)),
    "gram": (lambda t: t @ t.t(), real(*x2)), "repeat_use": (lambda t: sum((t * i).sin() for i in range(1, 5)), real(*x2)), "channel_mul": (lambda t: t * t.mean((2, 3), keepdim=True).sigmoid(), real(*img)),
    "mse": (F.mse_loss, real(*x2), real(*x2)), "smooth_l1": (F.smooth_l1_loss, real(*x2), real(*x2)), "huber": (F.huber_loss, real(*x2), real(*x2)),
    "bcel": (lambda a, b: F.binary_cross_entropy_with_logits(a, b.detach().sigmoid()), real(*x2), real(*x2)), "bce": (lambda a, b: F.binary_cross_entropy(a.sigmoid(), b.detach().sigmoid()), real(*x2), real(*x2)),
    "bool_sum": (lambda a, b: (a > b).sum() + a.sum(), real(*x2), real(*x2)), "adaptive1_last": (lambda t: F.adaptive_avg_pool2d(t, 1), last(*img)), "group_norm_last": (lambda t: F.group_norm(t, 8), last(*img)),
    "gather": (lambda t, i: t.gather(1, i), real(*x2), below(512, 4096, 64)), "index_select": (lambda t, i: t.index_select(0, i), real(*x2), below(4096, 8192)), "index_rows": (lambda t, i: t[i], real(*x2), below(4096, 8192)),
    "embedding": (lambda i, w: F.embedding(i, w), below(5000, 16, 128), real(5000, 256)), "embedding_many": (lambda i, w: F.embedding(i, w), below(5000, 64, 128), real(5000, 256)),
    "embedding_pad": (lambda i, w: F.embedding(i, w, padding_idx=0), below(5000, 16, 128), real(5000, 256)), "ce_2d": (F.cross_entropy, real(8, 21, 128, 128), below(21, 8, 128, 128)),
    "sdpa_32_64": (A, *heads(64)), "sdpa_32_80": (A, *heads(80)), "sdpa_16_64": (A, *heads(64, h)), "sdpa_16_30": (A, *heads(30, h)),
    "sdpa_bias_perm_32": (lambda q, k, v, m: A(q, k, v, attn_mask=m.permute(2, 0, 1)[None]), *heads(64), real(200, 200, 8)), "sdpa_bias_32": (lambda q, k, v, m: A(q, k, v, attn_mask=m), *heads(64), real(1, 8, 200, 200)),
}
MODULES = {
    "linear_3d_perm": (lambda: nn.Linear(128, 256), real(*seq), lambda m, x: m(x.transpose(1, 2))), "mha_amp": (lambda: nn.MultiheadAttention(512, 8, batch_first=True), real(*seq), lambda m, x: amp(lambda t: m(t, t, t, need_weights=False)[0], x)),
    "mha_weights_True": (lambda: nn.MultiheadAttention(512, 8, batch_first=True), real(*seq), lambda m, x: m(x, x, x)[0]), "gru_steps": (lambda: nn.GRU(256, 256), real(6, 1, 256), steps),
    "lstm_cell_loop": (lambda: nn.LSTMCell(256, 256), real(10, 64, 256), cells), "gru_cell_loop": (lambda: nn.GRUCell(256, 256), real(10, 64, 256), cells),
}


def mark(number):
    torch.empty(MARK + number, dtype=torch.uint8, device="cuda")


def run(number, fn, makes):
    for again in range(2):  # the first time has what lives for good
        xs = [make() for make in makes]
        mark(8 * number + 4 * again)
        out = fn(*xs)
        mark(8 * number + 4 * again + 1)
        outs, grads = [out], [torch.ones_like(out)]
        del out
        mark(8 * number + 4 * again + 2)
        torch.autograd.backward(outs, grads)
        mark(8 * number + 4 * again + 3)
        for x in xs:
            x.grad = None
        del outs, grads, xs


optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], 0.1)  # a trace then counts no steps of its own
for number, (fn, *makes) in enumerate(CASES.values()):
    run(number, fn, makes)
for number, (build, make, call) in enumerate(MODULES.values(), len(CASES)):
    module = build().cuda()
    run(number, lambda x: call(module, x), [make])
