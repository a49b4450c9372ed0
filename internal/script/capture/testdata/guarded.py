"""A guarded main; the model is made under a device context, the batches under a default device."""
import torch
from torch import nn


class RNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.lstm, self.out = nn.Embedding(64, 32), nn.LSTM(32, 48, num_layers=2, batch_first=True), nn.Linear(48, 64)

    def forward(self, ids):
        hidden, _ = self.lstm(self.embed(ids))
        return self.out(hidden)


if __name__ == "__main__":
    with torch.device("cuda"):
        model = RNN()
    torch.set_default_device("cuda")
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    for _ in range(2):
        ids = torch.randint(0, 64, (6, 12))
        logits = model(ids[:, :-1])
        loss = nn.functional.cross_entropy(logits.reshape(-1, 64), ids[:, 1:].reshape(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
