"""A trainer class with mixed precision, a gradient scaler, clipping and accumulation; workers and pinned memory."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        return {"image": torch.rand(3, 16, 16), "label": i % 10}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        return self.head(self.features(x).flatten(1))


class Trainer:
    def __init__(self):
        self.device = torch.device("cuda")
        self.net = Net().to(self.device)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1, momentum=0.9)
        self.scaler = torch.amp.GradScaler("cuda")
        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.1).to(self.device)
        self.accumulate = 4

    def run(self):
        loader = DataLoader(Images(), batch_size=8, num_workers=2, pin_memory=True, persistent_workers=True)
        for i, batch in enumerate(loader):
            images, labels = batch["image"].to(self.device, non_blocking=True), batch["label"].to("cuda")
            with torch.autocast("cuda", dtype=torch.float16):
                loss = self.criterion(self.net(images), labels) / self.accumulate
            self.scaler.scale(loss).backward()
            if (i + 1) % self.accumulate == 0:
                self.scaler.unscale_(self.optimizer)
                nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
                self.scaler.step(self.optimizer)
                self.scaler.update()
                self.optimizer.zero_grad()
                torch.cuda.synchronize()


if __name__ == "__main__":
    Trainer().run()
