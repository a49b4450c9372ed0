"""Values by number, and shapes in place of tensors: what a trace and its checkpoints keep."""


class Table:
    """Values by number, each once."""

    def __init__(self):
        self.values, self.numbers = [], {}

    def at(self, value):
        n = self.numbers.get(value)
        if n is None:
            n = self.numbers[value] = len(self.values)
            self.values.append(value)
        return n


class Shape:
    def __init__(self, shape, dtype, device):
        self.shape, self.dtype, self.device = shape, dtype, device


def mapped(torch, value, change):
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, dict):
        return {k: mapped(torch, v, change) for k, v in value.items()}
    if type(value) in (tuple, list):
        return type(value)(mapped(torch, v, change) for v in value)
    if isinstance(value, torch.nn.Module):
        return value
    return value


def shaped(value, make):
    if isinstance(value, Shape):
        return make(value)
    if isinstance(value, dict):
        return {k: shaped(v, make) for k, v in value.items()}
    if type(value) in (tuple, list):
        return type(value)(shaped(v, make) for v in value)
    return value
