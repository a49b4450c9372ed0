"""Draws convolutions as people run them, for plans.py: of one, two and three dimensions, layers of published models and random ones, at many batches.

layers.json.gz holds the layers: `torchvision` (its image classifiers at 224 and 448 pixels), `models` (timm, transformers, U-Nets, GANs, detectors, small nets), `line` (one
dimension: audio, text, signals) and `deep` (three: video, volumes). A seed always draws the same rows.
"""
import gzip
import json
import math
import os

import workspaces

COMMON = [1, 2, 4, 8, 16, 32, 64, 128, 256]  # batches people use
MOST_BYTES = 12 << 30
MOST_WORK = 2e13
SHARES = "random:55,torchvision:25,models:8,near:6,line:3,random1:2,deep:1"


def published(path=os.path.join(os.path.dirname(os.path.abspath(__file__)), "layers.json.gz")):
    with gzip.open(path, "rt") as f:
        return json.load(f)


def out_size(row):
    sizes = [row["in"][0], row["w"][1] * row["g"] if row["t"] else row["w"][0]]
    extra = row.get("o", [0] * len(row["s"]))
    for i in range(len(row["s"])):
        size, kernel, stride, padding = row["in"][i + 2], row["d"] * (row["w"][i + 2] - 1) + 1, row["s"][i], row["p"][i]
        sizes.append((size - 1) * stride - 2 * padding + kernel + extra[i] if row["t"] else (size + 2 * padding - kernel) // stride + 1)
    return sizes


def worth_it(row):
    out = out_size(row)
    if min(out) < 1 or row["in"][0] < 1:
        return False
    width = 4 if row["dtype"] == "fp32" else 2
    taps = math.prod(row["w"][1:]) * math.prod(row["in"] if row["t"] else out)
    return (math.prod(row["in"]) + math.prod(out)) * width <= MOST_BYTES and math.prod(row["in"]) < 1 << 31 and math.prod(out) < 1 << 31 and taps <= MOST_WORK


def layer(sizes, c, k, kernel, stride, padding, dilation, groups, transposed):
    if groups > 1:
        k = c
    first, second = (c, k) if transposed else (k, c)
    return {"in": [0, c, *sizes], "w": [first, second // groups, *kernel], "s": list(stride), "p": list(padding), "d": dilation, "g": groups, "t": transposed}


def random_deep(rng):
    channels = [1, 2, 3, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 320, 384, 512]
    c, k = rng.choice(channels), rng.choice(channels)
    kernel = rng.choice([(1, 1, 1), (2, 2, 2), (3, 3, 3), (3, 3, 3), (3, 3, 3), (1, 3, 3), (3, 1, 1), (5, 5, 5), (4, 4, 4), (3, 7, 7), (7, 7, 7)])
    stride = rng.choice([(1, 1, 1), (1, 1, 1), (1, 1, 1), (2, 2, 2), (2, 2, 2), (1, 2, 2)])
    padding = [a // 2 for a in kernel] if rng.random() < 0.75 else [0, 0, 0]
    d, h = rng.choice([4, 7, 8, 14, 16, 28, 32, 48, 64, 96]), rng.choice([7, 8, 14, 16, 24, 28, 32, 48, 56, 64, 96, 112, 128, 160, 224])
    transposed = rng.random() < 0.14
    groups = c if rng.random() < 0.04 and not transposed else 1
    return layer((d, h, h), c, k, kernel, stride, padding, 1, groups, transposed)


def random_line(rng):
    c, k = rng.choice(workspaces.CHANNELS), rng.choice(workspaces.CHANNELS)
    kernel = rng.choice([1, 2, 3, 3, 3, 4, 5, 5, 7, 8, 9, 11, 15, 16, 31])
    stride = rng.choice([1, 1, 1, 1, 2, 2, 4, 5, 8])
    d = rng.choice([1, 1, 1, 1, 2, 3, 4, 5, 8, 16])
    length = rng.choice([16, 32, 50, 64, 100, 128, 187, 200, 256, 300, 400, 500, 512, 800, 1000, 1024, 1500, 2000, 2048, 3000, 4000, 4096, 8000, 8192, 16000, 16384, 32000])
    transposed = rng.random() < 0.14
    groups = c if rng.random() < 0.06 and not transposed else 1
    return layer((1, length), c, k, (1, kernel), (1, stride), (0, rng.choice([d * (kernel - 1) // 2, 0])), d, groups, transposed)


def near(rng, row):
    """A layer like a published one: other channels or another size."""
    if row["g"] == 1 and rng.random() < 0.5:
        for side in ((0, 1) if rng.random() < 0.5 else (rng.randrange(2),)):
            n = row["w"][side]
            if n > 4:
                row["w"][side] = max(1, rng.choice([n // 2, n * 2, n * 3 // 4, n * 3 // 2, n + 8, n + 16, max(8, n - 8), n + 32, n + 1]))
        row["in"][1] = row["w"][0 if row["t"] else 1]
        return row
    h = row["in"][-1]
    n = max(1, rng.choice([h // 2, h * 2, h + 1, h - 1, h + 2, h * 3 // 4, h * 3 // 2, h + 4, h - 4]))
    row["in"] = [*row["in"][:2], *[n if size == h else size for size in row["in"][2:]]]
    return row


def draw(rng, kinds, shares):
    """One convolution; shares: how often each kind is drawn."""
    kind = rng.choices(list(shares), list(shares.values()))[0]
    if kind == "random":
        row = workspaces.random_layer(rng)
    elif kind == "random1":
        row = random_line(rng)
    elif kind == "random3":
        row = random_deep(rng)
    elif kind == "near":
        row = near(rng, json.loads(json.dumps(rng.choice(kinds["torchvision"] + kinds["models"]))))
    else:
        row = json.loads(json.dumps(rng.choice(kinds[kind])))
    common = kind in ("models", "deep", "line") and rng.random() < 0.7
    n = rng.choice(COMMON if common else workspaces.BATCHES) if rng.random() < 0.95 else rng.randint(1, 200)
    if kind in ("deep", "random3") and rng.random() < 0.5:
        n = rng.choice([1, 2, 4, 8, 16])
    row["in"] = [n, *row["in"][1:]]
    row["dtype"] = rng.choice(["fp32", "fp32", "bf16", "fp16"])
    row["cl"] = rng.random() < 0.22
    return {f: row[f] for f in ("in", "w", "s", "p", "d", "g", "t", "o", "dtype", "cl") if f in row}
