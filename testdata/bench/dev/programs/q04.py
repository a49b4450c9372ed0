import io
import torch
import torch.nn as nn


class Saver:
    def __init__(self, every):
        self.every = every
        self.sizes = []

    def __call__(self, step, model, optimizer):
        if step % self.every:
            return
        payload = {"step": step}
        payload["weights"] = {k: v.clone() for k, v in model.state_dict().items()}
        payload["optim"] = [{k: v.clone() for k, v in s.items()} for s in optimizer.state_dict()["state"].values()]
        buf = io.BytesIO()
        torch.save(payload, buf)
        self.sizes.append(buf.tell())


layer = lambda: nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True, dropout=0.0)
model = nn.TransformerEncoder(layer(), 8).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False)
saver = Saver(every=6)
for step in range(1, 30):
    x = torch.randn(4, 128, 1024, device="cuda")
    loss = (model(x) - x).abs().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    saver(step, model, optimizer)
print("done", loss.item())
