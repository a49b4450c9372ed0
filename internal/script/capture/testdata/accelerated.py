"""accelerate: mixed precision, accumulate(), clipping while gradients sync, gathered metrics, an evaluation first."""
import argparse

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mixed_precision", default="bf16")
    parser.add_argument("--gradient_accumulation_steps", type=int, default=4)
    args = parser.parse_args()
    accelerator = Accelerator(mixed_precision=args.mixed_precision, gradient_accumulation_steps=args.gradient_accumulation_steps)
    set_seed(42)
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 5))
    train = DataLoader(TensorDataset(torch.randn(64, 20), torch.randint(0, 5, (64,))), shuffle=True, batch_size=7)
    valid = DataLoader(TensorDataset(torch.randn(14, 20), torch.randint(0, 5, (14,))), batch_size=14)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, epochs=1, steps_per_epoch=len(train))
    model, optimizer, train, valid, scheduler = accelerator.prepare(model, optimizer, train, valid, scheduler)
    accelerator.print("device", accelerator.device, accelerator.num_processes)
    assert next(model.parameters()).device.type == accelerator.device.type
    model.eval()
    right = total = 0
    for x, y in valid:
        with torch.no_grad():
            guess = model(x).argmax(dim=-1)
        guess, y = accelerator.gather_for_metrics((guess, y))
        right += (guess == y).sum().item()
        total += len(y)
    model.train()
    for x, y in train:
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(x), y)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
    print("trained")


if __name__ == "__main__":
    main()
