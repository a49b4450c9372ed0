"""Launched with -m: an LSTM tagger with a relative import."""
import torch

from .parts import Tagger


def main():
    model = Tagger().cuda()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    for _ in range(3):
        ids = torch.randint(0, 20000, (64, 256), device="cuda")
        loss = torch.nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten() % 50)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
