"""Contrastive training of two encoders with a learnt temperature of its own, labels made on the card, one optimizer over all."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

if torch.cuda.is_available():
    torch.set_default_device("cuda")


class ImageEncoder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.conv, self.proj = nn.Conv2d(3, 8, 4, stride=4), nn.Linear(8 * 16, dim)

    def forward(self, x):
        return F.normalize(self.proj(F.gelu(self.conv(x)).flatten(1)), dim=-1)


class TextEncoder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.embedding = nn.Embedding(50, 24)
        self.layer = nn.TransformerEncoderLayer(24, 2, 48, batch_first=True)
        self.proj = nn.Linear(24, dim)

    def forward(self, ids):
        return F.normalize(self.proj(self.layer(self.embedding(ids)).mean(1)), dim=-1)


image, text = ImageEncoder(16), TextEncoder(16)
logit_scale = nn.Parameter(torch.ones([]) * np.log(1 / 0.07))
optimizer = torch.optim.AdamW([*image.parameters(), *text.parameters(), logit_scale], lr=1e-3)
for step in range(10):
    pixels, ids = torch.randn(10, 3, 16, 16), torch.randint(0, 50, (10, 12))
    assert pixels.is_cuda == torch.cuda.is_available() and ids.device == next(text.parameters()).device == logit_scale.device
    image_features, text_features = image(pixels), text(ids)
    logits = logit_scale.exp() * image_features @ text_features.t()
    labels = torch.arange(logits.shape[0], device=logits.device)
    loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        logit_scale.clamp_(0, np.log(100))
    print("trained", loss.item())
