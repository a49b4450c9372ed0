import inspect

import torch


class ModelMixin(torch.nn.Module):
    @classmethod
    def from_config(cls, config):
        known = inspect.signature(cls.__init__).parameters
        given = {n: p.default for n, p in known.items() if n != "self"}
        given.update({k: v for k, v in config.items() if k in known})
        model = cls(**given)
        model.config = {k: v for k, v in given.items() if k != "prompt"}  # what the width of the prompt is has to be learnt
        return model
