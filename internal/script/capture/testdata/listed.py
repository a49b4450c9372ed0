"""Makes a tensor of a list with a parameter's number in it, as continuous flows do with the time they integrate to."""
import torch


class Flow(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.end, self.layer = torch.nn.Parameter(torch.tensor(0.5)), torch.nn.Linear(64, 64)

    def forward(self, z):
        times = torch.tensor([0.0, self.end * self.end]).to(z)
        rows = torch.tensor([[self.end, 1], (2, 3)])
        assert times.shape == (2,) and rows.shape == (2, 2)
        return self.layer(z) * times[1]


model = Flow().cuda()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    model(torch.randn(32, 64).cuda()).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
