import torch
import torch.nn as nn


class ShapeError(ValueError):
    pass


class Runner:
    def __init__(self, net):
        self.net = net
        self.errors = []

    def process(self, i):
        volume = torch.randn(2, 1, 96, 96, 96, device="cuda")
        feats = self.net(volume)
        if i % 3 == 0:
            raise ShapeError(f"sample {i} has the wrong spacing")
        return feats.mean().item()

    def run(self, n):
        done = 0
        for i in range(n):
            try:
                self.process(i)
                done += 1
            except ShapeError as err:
                self.errors.append(err)
        return done


net = nn.Sequential(nn.Conv3d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv3d(16, 16, 3, padding=1), nn.ReLU(), nn.Conv3d(16, 1, 1)).cuda()
runner = Runner(net)
print(runner.run(200), "done,", len(runner.errors), "failed")
