import gc
import torch
import torch.nn as nn

gc.disable()


class Tape:
    def __init__(self, parent=None):
        self.parent = parent
        self.children = []
        self.value = None

    def child(self, value):
        c = Tape(self)
        c.value = value
        self.children.append(c)
        return c


class Tree(nn.Module):
    def __init__(self, d=1024):
        super().__init__()
        self.left, self.right = nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x):
        root = Tape()
        a = root.child(torch.tanh(self.left(x)))
        b = a.child(torch.tanh(self.right(a.value)))
        return b.value + a.value


tree = Tree().cuda()
opt = torch.optim.RMSprop(tree.parameters(), lr=1e-4)
for i in range(400):
    x = torch.randn(8192, 1024, device="cuda")
    loss = tree(x).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if i % 10 == 0:
        print(i, float(loss))
