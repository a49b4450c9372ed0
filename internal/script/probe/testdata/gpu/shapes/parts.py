from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20000, 512)
        self.mix = nn.Sequential(nn.Linear(512, 2048), nn.Tanh(), nn.Linear(2048, 512), nn.LayerNorm(512))
        self.tags = nn.Linear(512, 50)

    def forward(self, ids):
        x = self.embed(ids)
        return self.tags(x + self.mix(x))
