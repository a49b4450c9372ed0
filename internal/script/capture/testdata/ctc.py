"""CTC with lengths on the host, a mask of bytes, and a model that is drawn before it is trained."""
import torch
from torch import nn

STEPS, BATCH, SIGNS, LONGEST = 200, 8, 29, 30
model = nn.Sequential(nn.Linear(80, 256), nn.ReLU(), nn.Linear(256, SIGNS)).cuda()
torch.jit.trace(model, torch.randn(4, 80).cuda())
optimizer = torch.optim.AdamW(model.parameters())
lengths = torch.full((BATCH,), 20)
lengths[0] = LONGEST
for _ in range(3):
    out = model(torch.randn(STEPS, BATCH, 80, device="cuda"))
    hidden = torch.zeros_like(out, dtype=torch.uint8)
    hidden[:, :, 3] = 1
    out = torch.where(hidden, out - 1, out).masked_fill(hidden, 0.0)
    loss = nn.functional.ctc_loss(out.log_softmax(-1), torch.randint(1, SIGNS, (BATCH, 40)).cuda(), torch.full((BATCH,), STEPS), lengths)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
