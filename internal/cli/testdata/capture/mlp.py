"""Trains a plain network with options of its own."""
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=4096)
parser.add_argument("--accum_steps", type=int, default=1)
args = parser.parse_args()
model = torch.nn.Sequential(*[m for _ in range(8) for m in (torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024))]).cuda()
optimizer = torch.optim.AdamW(model.parameters())
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(8192, 1024)), batch_size=args.batch_size)
for i, (x,) in enumerate(loader, 1):
    loss = model(x.cuda()).square().mean() / args.accum_steps
    loss.backward()
    if i % args.accum_steps == 0:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
