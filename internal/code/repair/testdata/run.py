"""Runs small programs before and after their repair: reads [[name, source], …] as JSON, writes [{"values": …} or {"error": …}, …].

Each program gets the same small model, data and optimizer, made anew from one seed; what is moved to "cuda" goes to the CPU."""
import contextlib
import io
import json
import os
import sys
import tempfile
import types
import warnings

import torch
from torch import nn
from torch.nn import functional as F

warnings.simplefilter("ignore")
torch.set_num_threads(1)
sys.modules["wandb"] = types.SimpleNamespace(log=lambda values: None)
os.chdir(tempfile.mkdtemp())
torch.distributed.init_process_group("gloo", init_method="file://" + os.path.abspath("store"), rank=0, world_size=1)


class RNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(8, 8)

    def init_hidden(self):
        return torch.zeros(1, 4, 8)

    def forward(self, x, hidden):
        out, hidden = self.gru(x.unsqueeze(0), hidden)
        return out.squeeze(0), hidden


def names(source):
    torch.manual_seed(0)
    model, rnn = nn.Linear(8, 8), RNN()
    batches = [(torch.randn(4, 8), torch.randint(8, (4,))) for _ in range(6)]
    loader = batches if ", y" in source or "labels in" in source else [x for x, _ in batches]
    trained = rnn if "rnn" in source else model
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), **model.state_dict()}, "a.pt")
    torch.save(model.state_dict(), "model.pt")
    x, y = batches[0]
    return {
        "torch": torch, "nn": nn, "F": F, "os": os, "wandb": sys.modules["wandb"], "model": model, "net": model, "encoder": model, "rnn": rnn, "loader": loader,
        "train_loader": batches, "test_loader": batches, "testloader": batches, "images": [x for x, _ in batches], "image": x, "criterion": nn.CrossEntropyLoss(),
        "optimizer": optimizer, "scaler": torch.amp.GradScaler("cpu", enabled=False), "accelerator": types.SimpleNamespace(backward=lambda loss: loss.backward()),
        "device": "cpu", "lr": 0.1, "steps": 2, "grad_accum": 2, "accum": 2, "last": False, "x": x, "y": y, "tokens": x, "labels": y, "mask": None, "rank": 0,
        "compute_loss": lambda model, batch: model(batch[0] if isinstance(batch, tuple) else batch).mean(), "report": lambda out, y: None,
        "block": lambda x, mask: model(x).relu(), "parts": [torch.ones(2), torch.ones(3)], "RandomResize": list, "predict": lambda model, scales: None,
    }


def numbers(value):
    if isinstance(value, torch.Tensor):
        return [round(v, 6) for v in value.detach().double().flatten().tolist()]
    if isinstance(value, dict):
        return {str(k): numbers(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [numbers(v) for v in value]
    if isinstance(value, float):
        return round(value, 6)
    return value if isinstance(value, (int, str)) else None


CALLS = {"collect": lambda g: g["collect"](g["model"], g["loader"]), "evaluate": lambda g: g["evaluate"](g["model"], g["loader"]), "main": lambda g: g["main"]("model.pt"),
         "run": lambda g: g["run"](g["model"], g["loader"]), "fit": lambda g: g["fit"](g["model"], g["train_loader"], g["test_loader"])}


def run(source):
    g = names(source)
    before = set(g)
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        exec(compile(source.replace('("cuda")', '("cpu")').replace('autocast("cpu")', 'autocast("cuda")').replace("cuda:0", "cpu"), "program", "exec"), g)
        for name, call in CALLS.items():
            if callable(g.get(name)):
                g["result"] = call(g)
    values = {k: numbers(v) for k, v in g.items() if k not in before and not k.startswith("__") and isinstance(v, (torch.Tensor, dict, list, int, float))}
    plain = [line for line in shown.getvalue().splitlines() if "tensor" not in line]
    return {"values": {"parameters": [numbers(p) for p in g["optimizer"].param_groups[0]["params"]], "shown": plain, **values}}


out = []
for name, source in json.load(sys.stdin):
    try:
        out.append(run(source))
    except Exception as e:
        out.append({"error": f"{type(e).__name__}: {e}"})
json.dump(out, sys.stdout)
