"""Exports models of timm 0.6 for scripts/brackets.sh: graphs.py BRACKETS.csv FOLDER [--seed N] [--verdicts N].

Writes the training graph of every sampled model, its batch left open, to FOLDER/MODEL-SIZE.json.gz, without weights; why a model could not be exported goes
to FOLDER/MODEL-SIZE.failed. What is there already is kept. The sample itself is FOLDER/sample-SEED.csv.
"""

import argparse
import csv
import gzip
import os
import random
import time
import warnings

import torch
from torch._export.serde.serialize import serialize


def no_init(tensor, *args, **kwargs):
    """Weights are not looked at."""
    return tensor


def sampled(path, seed, verdicts):
    """Rows of models in a random order, both memory layouts of each, until there are so many verdicts: two a row."""
    with open(path, newline="") as f:
        rows = [r for r in csv.DictReader(f) if r["bracket"] == "two-sided"]
    models = sorted({(r["model"], r["img_size"]) for r in rows})
    random.Random(seed).shuffle(models)
    out = []
    for model in models:
        out += [r for r in rows if (r["model"], r["img_size"]) == model]
        if 2 * len(out) >= verdicts:
            break
    return out


def build(name):
    """The model as timm's benchmark.py of 2022 makes it, in training mode."""
    import timm

    try:
        model = timm.create_model(name, pretrained=False, global_pool="fast")
    except (TypeError, AssertionError):  # transformers have no such pooling
        model = timm.create_model(name, pretrained=False)
    return model.to("meta").train()


def export(name, size, out):
    model = build(name)
    x = torch.empty(4, 3, size, size, device="meta")
    batch = torch.export.Dim("batch", min=2, max=8192)
    program = torch.export.export(model, (x,), dynamic_shapes=({0: batch},), strict=False)
    data = serialize(program).exported_program
    with gzip.GzipFile(out + ".part", "wb", 6, mtime=0) as f:
        f.write(data)
    os.replace(out + ".part", out)


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("brackets")
    args.add_argument("folder")
    args.add_argument("--seed", type=int, default=1)
    args.add_argument("--verdicts", type=int, default=200)
    args.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long; call again to go on")
    args = args.parse_args()
    warnings.simplefilter("ignore")
    for init in ("kaiming_normal_", "kaiming_uniform_", "xavier_uniform_", "xavier_normal_", "normal_", "uniform_", "trunc_normal_", "_no_grad_uniform_", "_no_grad_normal_", "_no_grad_trunc_normal_"):
        setattr(torch.nn.init, init, no_init)
    os.makedirs(args.folder, exist_ok=True)
    rows = sampled(args.brackets, args.seed, args.verdicts)
    with open(f"{args.folder}/sample-{args.seed}.csv", "w", newline="") as f:
        out = csv.DictWriter(f, rows[0].keys())
        out.writeheader()
        out.writerows(rows)
    begun = time.monotonic()
    for row in rows:
        name, size = row["model"], int(row["img_size"])
        stem = f"{args.folder}/{name}-{size}"
        if os.path.exists(stem + ".json.gz") or os.path.exists(stem + ".failed"):
            continue
        if time.monotonic() - begun > args.seconds:
            raise SystemExit("more to do")
        try:
            export(name, size, stem + ".json.gz")
        except Exception as e:  # noqa: BLE001 any model of a thousand may fail in its own way
            with open(stem + ".failed", "w") as f:
                f.write(f"{type(e).__name__}: {str(e).strip()[:400]}\n")


main()
