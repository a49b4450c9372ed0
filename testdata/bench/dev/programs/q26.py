import os
import tempfile
import torch
import torch.nn as nn

PATH = os.path.join(tempfile.gettempdir(), f"resume-{os.getpid()}.pt")


def make():
    return nn.Sequential(*[nn.Linear(2560, 2560) for _ in range(16)])


def write_checkpoint():
    m = make()
    o = torch.optim.Adam(m.parameters())
    for p in m.parameters():
        p.grad = torch.zeros_like(p)
    o.step()
    torch.save({"model": m.state_dict(), "optimizer": o.state_dict(), "epoch": 3}, PATH)


def main():
    write_checkpoint()
    device = torch.device("cuda")
    model = make().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    ckpt = torch.load(PATH, map_location=device)
    model.load_state_dict(ckpt["model"])
    optimizer.load_state_dict(ckpt["optimizer"])
    start = ckpt["epoch"]
    os.remove(PATH)
    for epoch in range(start, start + 3):
        for _ in range(5):
            x = torch.randn(2048, 2560, device=device)
            loss = (model(x) - x).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, loss.item())


main()
