"""Self-distillation: an EMA teacher without gradients, several crops, a centre buffer that the loss updates."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class DINOLoss(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.register_buffer("center", torch.zeros(1, dim))

    def forward(self, student, teacher):
        student_out = (student / 0.1).chunk(4)
        teacher_out = F.softmax((teacher - self.center) / 0.04, dim=-1).detach().chunk(2)
        total, n = 0, 0
        for iq, q in enumerate(teacher_out):
            for v in range(len(student_out)):
                if v == iq:
                    continue
                total += torch.sum(-q * F.log_softmax(student_out[v], dim=-1), dim=-1).mean()
                n += 1
        self.update_center(teacher)
        return total / n

    @torch.no_grad()
    def update_center(self, teacher):
        self.center = self.center * 0.9 + teacher.mean(dim=0, keepdim=True) * 0.1


def train_one_epoch(student, teacher, criterion, loader, optimizer, scaler):
    for it, images in enumerate(loader):
        images = [im.cuda(non_blocking=True) for im in images]
        with torch.amp.autocast("cuda"):
            teacher_output = teacher(torch.cat(images[:2]))
            student_output = student(torch.cat(images))
            loss = criterion(student_output, teacher_output)
        if not torch.isfinite(loss):
            raise SystemExit(f"Loss is {loss.item()}, stopping training")
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        for p in student.parameters():
            if p.grad is not None:
                clip = 3.0 / (p.grad.norm(2) + 1e-6)
                if clip < 1:
                    p.grad.mul_(clip)
        scaler.step(optimizer)
        scaler.update()
        with torch.no_grad():
            for q, k in zip(student.parameters(), teacher.parameters()):
                k.data.mul_(0.99).add_(0.01 * q.detach().data)
        print("trained")


def main():
    student = nn.Sequential(nn.Flatten(), nn.Linear(3 * 64, 128), nn.GELU(), nn.Linear(128, 40)).cuda()
    teacher = copy.deepcopy(student)
    for p in teacher.parameters():
        p.requires_grad = False
    optimizer = torch.optim.AdamW([{"params": [p for p in student.parameters() if p.dim() > 1]}, {"params": [p for p in student.parameters() if p.dim() < 2], "weight_decay": 0.0}])
    crops = [tuple(torch.rand(3, 8, 8) for _ in range(4)) for _ in range(18)]
    loader = torch.utils.data.DataLoader(crops, batch_size=6, num_workers=1, pin_memory=True)
    train_one_epoch(student, teacher, DINOLoss(40).cuda(), loader, optimizer, torch.amp.GradScaler())


main()
