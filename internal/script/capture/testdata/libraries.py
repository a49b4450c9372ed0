"""What libraries do behind a script's back: several threads move weights to the GPU at once, and an autograd function makes its buffers in backward, on the device it
remembered, by products that have a type of their own."""
from concurrent.futures import ThreadPoolExecutor

import torch

weights = [torch.zeros(256, 256) for _ in range(64)]
with ThreadPoolExecutor(8) as pool:
    weights = list(pool.map(lambda w: w.to(torch.device(0)), weights))


class Tiled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        ctx.device = x.device
        return x @ w

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        buffer = torch.empty(1024, 256, device=ctx.device)
        tile = buffer[: grad.shape[0]]
        if hasattr(torch.ops.aten.mm, "dtype"):  # 2.8 and newer
            tile = torch.addmm(tile, grad.bfloat16(), w.t().bfloat16(), out_dtype=torch.float32)
        return tile, None


model = torch.nn.Linear(256, 256).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    x = Tiled.apply(model(torch.randn(512, 256, device="cuda")), weights[0])
    x.sum().backward()
    optimizer.step()
    optimizer.zero_grad()

kept = model.state_dict()
assert len({t.untyped_storage().data_ptr() for t in kept.values()}) == len(kept)  # safetensors refuses weights that share a storage
