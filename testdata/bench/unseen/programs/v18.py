import torch
import torch.nn as nn
import torch.nn.functional as F


def load_arrays(n=90000):
    g = torch.Generator().manual_seed(1)
    x = torch.rand(n, 1, 90, 80, generator=g)
    return x, torch.randint(0, 20, (n,), generator=g)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, 1)
        self.conv2 = nn.Conv2d(32, 64, 3, 1)
        self.fc1 = nn.Linear(64 * 43 * 38, 128)
        self.fc2 = nn.Linear(128, 20)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return F.log_softmax(self.fc2(F.relu(self.fc1(x.flatten(1)))), 1)


def main():
    train_x, train_y = load_arrays()
    train_x, train_y = train_x.cuda(), train_y.cuda()
    model = Net().cuda()
    opt = torch.optim.Adadelta(model.parameters())
    for epoch in range(3):
        order = torch.randperm(len(train_x), device="cuda")
        for b in range(0, 20000, 256):
            i = order[b:b + 256]
            opt.zero_grad()
            loss = F.nll_loss(model(train_x[i]), train_y[i])
            loss.backward()
            opt.step()
        print(epoch, loss.item())


main()
