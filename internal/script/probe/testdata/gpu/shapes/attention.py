"""A guarded main and a transformer encoder; a default device."""
import torch
from torch import nn

if __name__ == "__main__":
    torch.set_default_device("cuda")
    layer = nn.TransformerEncoderLayer(1024, 16, 4096, dropout=0.0, batch_first=True, norm_first=True)
    model = nn.Sequential(nn.Embedding(32000, 1024), nn.TransformerEncoder(layer, 6, enable_nested_tensor=False), nn.Linear(1024, 32000))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    for _ in range(3):
        ids = torch.randint(0, 32000, (8, 512))
        logits = model(ids)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
