import torch
import torch.nn as nn
import torch.nn.functional as F

CLASSES = 150


def dice_loss(logits, labels):
    probs = logits.softmax(1)
    target_1hot = F.one_hot(labels, CLASSES)
    target_1hot = target_1hot.permute(0, 3, 1, 2).float()
    inter = (probs * target_1hot).sum((0, 2, 3))
    return 1 - (2 * inter / (probs.sum((0, 2, 3)) + target_1hot.sum((0, 2, 3)) + 1)).mean()


def main():
    net = nn.Sequential(nn.Conv2d(3, 48, 3, padding=1), nn.ReLU(), nn.Conv2d(48, CLASSES, 1)).cuda()
    opt = torch.optim.AdamW(net.parameters(), 1e-3)
    for step in range(20):
        img = torch.rand(4, 3, 512, 512, device="cuda")
        lab = torch.randint(0, CLASSES, (4, 512, 512), device="cuda")
        loss = dice_loss(net(img), lab)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, loss.item())


main()
