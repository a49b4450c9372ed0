"""channels_last, bf16 autocast, a model wrapped for several GPUs, a scheduler, an evaluation first."""
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda", 0)
net = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 7))
net = DistributedDataParallel(net.to(device, memory_format=torch.channels_last), device_ids=[0])
loader = DataLoader(TensorDataset(torch.rand(32, 3, 32, 32), torch.randint(0, 7, (32,))), 4, True, num_workers=2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
net.eval()
with torch.no_grad():
    print(net(torch.rand(2, 3, 32, 32).to(device)).shape)
net.train()
for x, y in loader:
    x, y = x.to(device, memory_format=torch.channels_last), y.to(device)
    with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
