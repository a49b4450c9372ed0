"""A timm-like loop: a prefetcher on a side stream that normalises on the card, mixup, EMA of the weights, a native scaler, meters, channels_last."""
import argparse
import copy
import math
import time
from collections import OrderedDict

import torch
import torch.nn as nn
import torch.nn.functional as F


class FakeData(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        return (torch.rand(3, 32, 32) * 255).to(torch.uint8), i % 10


class PrefetchLoader:
    def __init__(self, loader, mean, std, device=torch.device("cuda")):
        self.loader, self.device = loader, device
        self.mean = torch.tensor([x * 255 for x in mean], device=device).view(1, 3, 1, 1)
        self.std = torch.tensor([x * 255 for x in std], device=device).view(1, 3, 1, 1)
        self.is_cuda = torch.cuda.is_available() and device.type == "cuda"

    def __iter__(self):
        first = True
        stream = torch.cuda.Stream(device=self.device)
        for next_input, next_target in self.loader:
            with torch.cuda.stream(stream):
                next_input = next_input.to(device=self.device, non_blocking=True)
                next_target = next_target.to(device=self.device, non_blocking=True)
                next_input = next_input.to(torch.float32).sub_(self.mean).div_(self.std)
            if not first:
                yield input, target
            else:
                first = False
            torch.cuda.current_stream(device=self.device).wait_stream(stream)
            input, target = next_input, next_target
        yield input, target


class Bottleneck(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.act(x + self.bn2(self.conv2(self.act(self.bn1(self.conv1(x))))))


class ResNet(nn.Module):
    def __init__(self, classes=10, width=16):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU(inplace=True))
        self.blocks = nn.Sequential(*[Bottleneck(width) for _ in range(2)])
        self.pool, self.head = nn.AdaptiveAvgPool2d(1), nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.pool(self.blocks(self.stem(x))).flatten(1))


class ModelEma(nn.Module):
    def __init__(self, model, decay=0.999):
        super().__init__()
        self.module = copy.deepcopy(model).eval()
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        for ema, value in zip(self.module.state_dict().values(), model.state_dict().values()):
            ema.copy_(self.decay * ema + (1.0 - self.decay) * value)


class SoftTargetCrossEntropy(nn.Module):
    def forward(self, x, target):
        return torch.sum(-target * F.log_softmax(x, dim=-1), dim=-1).mean()


class NativeScaler:
    def __init__(self, device="cuda"):
        self._scaler = torch.cuda.amp.GradScaler()

    def __call__(self, loss, optimizer, clip_grad=None, parameters=None):
        self._scaler.scale(loss).backward()
        if clip_grad is not None:
            self._scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(parameters, clip_grad)
        self._scaler.step(optimizer)
        self._scaler.update()


class AverageMeter:
    def __init__(self):
        self.sum = self.count = 0

    def update(self, val, n=1):
        self.sum, self.count = self.sum + val * n, self.count + n


def mixup(x, target, alpha=0.2, classes=10):
    lam = torch.distributions.Beta(alpha, alpha).sample().item()
    x.mul_(lam).add_(x.flip(0).mul_(1.0 - lam))
    y1 = torch.full((x.size(0), classes), 0.01, device=x.device).scatter_(1, target.long().view(-1, 1), 0.9)
    return x, y1 * lam + y1.flip(0) * (1.0 - lam)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-b", "--batch-size", type=int, default=16)
    parser.add_argument("--opt", default="sgd")
    args = parser.parse_args()
    device = torch.device("cuda:0")
    torch.cuda.set_device(device)
    torch.backends.cudnn.benchmark = True
    model = ResNet().to(device=device, memory_format=torch.channels_last)
    ema = ModelEma(model)
    print(f"Model created, param count: {sum(m.numel() for m in model.parameters())}")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=2e-5)
    amp_autocast, scaler = torch.cuda.amp.autocast, NativeScaler()
    loader = PrefetchLoader(torch.utils.data.DataLoader(FakeData(), batch_size=args.batch_size, shuffle=True, num_workers=4, pin_memory=True, drop_last=True),
                            (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), device)
    loss_fn, meter = SoftTargetCrossEntropy().cuda(), AverageMeter()
    model.train()
    end = time.time()
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for batch_idx, (input, target) in enumerate(loader):
        start.record()
        input, target = mixup(input, target)
        input = input.contiguous(memory_format=torch.channels_last)
        with amp_autocast():
            output = model(input)
            loss = loss_fn(output, target)
        meter.update(loss.item(), input.size(0))
        optimizer.zero_grad()
        scaler(loss, optimizer, clip_grad=1.0, parameters=model.parameters())
        ema.update(model)
        stop.record()
        torch.cuda.synchronize()
        print("trained", start.elapsed_time(stop), meter.sum, torch.cuda.max_memory_allocated() / 2**20)


if __name__ == "__main__":
    main()
