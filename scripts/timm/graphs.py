"""Exports models of timm 0.6 for scripts/brackets.sh: graphs.py BRACKETS.csv FOLDER [--seed N] [--verdicts N].

Writes the training graph of every sampled model, its batch left open, to FOLDER/MODEL-SIZE.json.gz, without weights; why a model could not be exported goes
to FOLDER/MODEL-SIZE.failed. Where the batch cannot be left open there is a graph for each: MODEL-SIZE-BATCH.json.gz. What is there already is kept. The sample itself is FOLDER/sample-SEED.csv.
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


def build(name, **pooling):
    import timm

    return timm.create_model(name, pretrained=False, **pooling).to("meta").train()


def graph(name, size, samples=None, **pooling):
    """The training graph of a model as timm's benchmark.py of 2022 makes it; its batch is left open, or has so many samples."""
    x = torch.empty(samples or 4, 3, size, size, device="meta")
    shapes = None if samples else ({0: torch.export.Dim("batch", min=2, max=8192)},)
    return torch.export.export(build(name, **pooling), (x,), dynamic_shapes=shapes, strict=False)


def save(program, out):
    with gzip.GzipFile(out + ".part", "wb", 6, mtime=0) as f:
        f.write(serialize(program).exported_program)
    os.replace(out + ".part", out)


def export(name, size, batches, stem):
    try:
        program = graph(name, size, global_pool="fast")
    except Exception:  # noqa: BLE001 most transformers have no such pooling, and each says so in its own way
        try:
            program = graph(name, size)
        except Exception:  # noqa: BLE001 code that computes with the batch as a number of Python's: Swin's windows
            for samples in batches:
                save(graph(name, size, samples), f"{stem}-{samples}.json.gz")
            return
    save(program, stem + ".json.gz")


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
        batches = sorted({int(r[c]) for r in rows for c in ("batch_that_ran", "next_batch_tried") if r["model"] == name})
        if any(os.path.exists(stem + end) for end in (".json.gz", ".failed", f"-{batches[-1]}.json.gz")):
            continue
        if time.monotonic() - begun > args.seconds:
            raise SystemExit("more to do")
        try:
            export(name, size, batches, stem)
        except Exception as e:  # noqa: BLE001 any model of a thousand may fail in its own way
            with open(stem + ".failed", "w") as f:
                f.write(f"{type(e).__name__}: {str(e).strip()[:400]}\n")


main()
