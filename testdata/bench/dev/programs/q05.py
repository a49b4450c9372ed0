import torch
import torch.nn as nn


def box_iou(a, b):
    area_a = (a[:, 2] - a[:, 0]) * (a[:, 3] - a[:, 1])
    area_b = (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])
    lt = torch.max(a[:, None, :2], b[None, :, :2])
    rb = torch.min(a[:, None, 2:], b[None, :, 2:])
    wh = (rb - lt).clamp(min=0)
    inter = wh[..., 0] * wh[..., 1]
    return inter / (area_a[:, None] + area_b - inter)


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 32, 3, 4, 1), nn.ReLU(), nn.Conv2d(32, 12, 1))

    def forward(self, x):
        y = self.backbone(x)
        return y.flatten(2).transpose(1, 2).reshape(-1, 4)


det = Detector().cuda()
opt = torch.optim.SGD(det.parameters(), 1e-3)
for it, size in enumerate([128, 160, 192, 256, 400]):
    boxes = det(torch.rand(1, 3, size, size, device="cuda"))
    xyxy = torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:].abs() + 1], 1)
    overlap = box_iou(xyxy, xyxy)
    loss = overlap.mean() + boxes.pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(it, size, boxes.shape[0], loss.item())
