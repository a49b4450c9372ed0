"""As much of diffusers as its models are read with: one model that is told about a prompt whose width its configuration does not name."""
import torch

from . import utils
from .models.modeling_utils import ModelMixin

__version__ = "0.1"


class SmallUNetModel(ModelMixin):
    def __init__(self, in_channels=4, prompt=24, sample_size=16):
        super().__init__()
        self.conv_in = torch.nn.Conv2d(in_channels, 8, 3, padding=1)
        self.prompt = torch.nn.Linear(prompt, 8).requires_grad_(False)
        self.conv_out = torch.nn.Conv2d(8, 2 * in_channels, 3, padding=1)

    def forward(self, sample, timestep, encoder_hidden_states, return_dict=True):
        x = self.conv_in(sample) + self.prompt(encoder_hidden_states).mean(1)[:, :, None, None] + timestep[:, None, None, None]
        return {"sample": self.conv_out(x)}
