import argparse
import copy
import torch
import torch.nn.functional as F
from torch import nn


def build(dim):
    return nn.Sequential(nn.Linear(3072, 2048), nn.ReLU(), nn.Linear(2048, dim))


def main(args):
    device = torch.device("cuda")
    q_enc = build(args.dim).to(device)
    k_enc = copy.deepcopy(q_enc).requires_grad_(False)
    opt = torch.optim.SGD(q_enc.parameters(), 0.03, momentum=0.9)
    queue = []
    for step in range(args.steps):
        a = torch.randn(args.batch, 3072, device=device)
        b = a + 0.1 * torch.randn_like(a)
        q = F.normalize(q_enc(a), dim=1)
        with torch.no_grad():
            for pq, pk in zip(q_enc.parameters(), k_enc.parameters()):
                pk.mul_(0.999).add_(pq, alpha=0.001)
            k = F.normalize(k_enc(b), dim=1)
        pos = (q * k).sum(1, keepdim=True)
        neg = torch.stack([(q[:512] * old[:512]).sum(1) for old in queue[-8:]], 1) if queue else pos[:512]
        loss = -(pos.mean() - neg.mean())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        queue.append(k)
        if step % 50 == 0:
            print(step, round(loss.item(), 3), len(queue))


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--batch", type=int, default=8192)
    ap.add_argument("--dim", type=int, default=1024)
    ap.add_argument("--steps", type=int, default=300)
    main(ap.parse_args())
