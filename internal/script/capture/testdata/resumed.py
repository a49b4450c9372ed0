"""nn.DataParallel around a model, its outputs averaged; resumed from a checkpoint with map_location."""
import io
import os

import torch
import torch.nn as nn

os.environ["CUDA_VISIBLE_DEVICES"] = "0,1"
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Conv1d(4, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 18, 6))
saved = io.BytesIO()
torch.save({"model": model.state_dict(), "epoch": 3}, saved)
saved.seek(0)
model = nn.DataParallel(model, device_ids=list(range(torch.cuda.device_count()))).to(device)
checkpoint = torch.load(saved, map_location=device)
assert next(iter(checkpoint["model"].values())).is_cuda
model.module.load_state_dict(checkpoint["model"])
optimizer = torch.optim.Adadelta(model.parameters())
free, total = torch.cuda.mem_get_info()
props = torch.cuda.get_device_properties(device)
print(f"{props.name} {props.total_memory / 1024 ** 3:.1f} GB, {free / total:.0%} free", torch.cuda.get_device_capability(), torch.version.cuda)
for step in range(2):
    x, y = torch.randn(14, 4, 20).to(device), torch.randint(6, (14,)).to(device)
    out = model(x)
    loss = nn.CrossEntropyLoss()(out, y).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("trained", float(loss))
