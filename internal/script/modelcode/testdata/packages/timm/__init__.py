"""As much of timm as its models are read with: one model whose blocks can be checkpointed."""
import torch
import torch.utils.checkpoint

__version__ = "1.0"


class Net(torch.nn.Module):
    num_classes = 10
    pretrained_cfg = {"input_size": (3, 32, 32), "num_classes": 10}

    def __init__(self, num_classes=10, drop_path_rate=0.1):
        super().__init__()
        self.rates = [x.item() for x in torch.linspace(0, drop_path_rate, 3)]  # a number that a constructor reads
        self.num_classes = num_classes
        self.stem = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.blocks = torch.nn.ModuleList([torch.nn.Conv2d(8, 8, 3, padding=1) for _ in range(3)])
        self.head = torch.nn.Linear(8, num_classes)
        self.recomputed = False

    def set_grad_checkpointing(self, enable=True):
        self.recomputed = enable

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False) if self.recomputed else block(x)
        return self.head(x.mean((2, 3)))


def list_models():
    return ["smallnet", "smallnet_wide"]


def list_pretrained(pattern):
    return ["smallnet.tag"]


def is_model(name):
    return name.partition(".")[0] in list_models()


def create_model(name, pretrained=False, **kwargs):
    return Net(**kwargs)
