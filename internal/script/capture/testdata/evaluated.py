"""Evaluates before it trains, as nanoGPT does: four hundred passes of one shape, whose losses are collected in a tensor."""
import torch

model = torch.nn.Sequential(torch.nn.Embedding(65, 64), *(torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True) for _ in range(6)), torch.nn.Linear(64, 65)).cuda()
optimizer = torch.optim.AdamW(model.parameters())


@torch.no_grad()
def estimate():
    model.eval()
    losses = torch.zeros(400)
    for k in range(400):
        x = torch.randint(0, 65, (64, 32)).cuda()
        losses[k] = torch.nn.functional.cross_entropy(model(x).flatten(0, 1), x.flatten()).item()
    model.train()
    return losses.mean()


for step in range(3):
    print(estimate())
    x = torch.randint(0, 65, (8, 32)).cuda()
    torch.nn.functional.cross_entropy(model(x).flatten(0, 1), x.flatten()).backward()
    optimizer.step()
    optimizer.zero_grad()
