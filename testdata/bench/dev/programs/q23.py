import torch
import torch.nn as nn

model = nn.TransformerEncoder(nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True), 4).cuda()
opt = torch.optim.AdamW(model.parameters(), 1e-4)
scaler = torch.amp.GradScaler("cuda")
for step in range(64):
    x = torch.randn(16, 256, 512, device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        loss = (model(x) - x).pow(2).mean() / 8
    scaler.scale(loss).backward()
    if step % 8 == 7:
        scaler.step(opt)
        scaler.update()
        opt.zero_grad(set_to_none=True)
        print(step, loss.item())
