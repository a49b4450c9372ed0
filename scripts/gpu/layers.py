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
RANKS = [1, 2, 4, 8, 8, 12, 16, 16, 32, 32, 64, 64, 128]  # of adapters
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


def adapted(rng, row):
    """One of the two convolutions that PEFT puts beside a published one: to the rank with its kernel, and from the rank with one of 1 x 1."""
    rank = rng.choice(RANKS)
    if row["t"] or row["g"] > 1:
        row = {**row, "t": False, "g": 1, "w": [row["in"][1], row["in"][1], *row["w"][2:]]}
        row.pop("o", None)
    if rng.random() < 0.7:
        row["w"] = [rank, *row["w"][1:]]
        return row
    row["in"] = [0, rank, *out_size({**row, "in": [1, *row["in"][1:]]})[2:]]
    ones = [1] * len(row["s"])
    return {**row, "w": [row["w"][0], rank, *ones], "s": ones, "p": [0] * len(ones), "d": 1}


def random_wave(rng):
    """Convolutions over samples of sound, as codecs and vocoders have them: residual units with dilation, and strides with kernels twice as wide."""
    c = rng.choice([1, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536])
    length = rng.choice([16000, 22050, 24000, 32000, 44100, 48000, 80000, 160000, 240000, 441000, 480000])
    length = max(length // rng.choice([1, 1, 2, 4, 5, 8, 16, 32, 40, 64, 160, 256, 320]), 16)
    if rng.random() < 0.55:
        kernel, d = rng.choice([3, 5, 7, 7, 11]), rng.choice([1, 1, 3, 3, 5, 9, 9, 27])
        return layer((1, length), c, c, (1, kernel), (1, 1), (0, d * (kernel - 1) // 2), d, 1, False)
    if rng.random() < 0.4:
        kernel = rng.choice([1, 1, 3, 7])
        return layer((1, length), c, rng.choice([1, c, 2 * c, max(1, c // 2), 64, 128, 1024]), (1, kernel), (1, 1), (0, kernel // 2), 1, 1, False)
    stride = rng.choice([2, 3, 4, 5, 8, 8, 10, 12])
    transposed = rng.random() < 0.4
    return layer((1, length), c, max(1, c // 2) if transposed else 2 * c, (1, 2 * stride), (1, stride), (0, (stride + 1) // 2), 1, 1, transposed)


def random_wide(rng):
    """Large kernels and dilation over images: segmentation, documents, super resolution."""
    c = rng.choice([3, 8, 16, 24, 32, 32, 48, 64, 64, 96, 128, 192, 256])
    k = c if rng.random() < 0.5 else rng.choice([1, 2, 8, 16, 32, 48, 64, 96, 128, 256])
    kernel, d = rng.choice([3, 5, 5, 5, 7, 7, 9, 11]), rng.choice([1, 1, 1, 1, 2, 3, 4, 6])
    h = rng.choice(workspaces.SIZES)
    w = h if rng.random() < 0.8 else rng.choice(workspaces.SIZES)
    stride = rng.choice([1, 1, 1, 2]) if d == 1 else 1
    pad = d * (kernel - 1) // 2
    return layer((h, w), c, k, (kernel, kernel), (stride, stride), (pad, pad), d, 1, False)


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


# What scripts mostly have, with how often: batches, types, channels, sides, and kernels (side, stride, padding, transposed, output padding).
BATCH = {1: 2, 2: 2, 4: 3, 8: 4, 10: 0.5, 12: 0.5, 16: 6, 20: 0.5, 24: 0.7, 32: 8, 48: 1, 50: 0.7, 64: 10, 80: 0.5, 96: 1, 100: 2, 128: 9, 192: 0.5, 200: 0.5, 256: 5, 500: 0.4, 512: 2, 1000: 0.5, 1024: 0.5}
WIDE = {1: 1, 3: 3, 6: 0.7, 8: 1, 10: 0.5, 12: 0.5, 16: 4, 20: 0.7, 24: 1, 32: 6, 48: 2.5, 50: 0.5, 64: 10, 72: 0.4, 80: 1, 96: 2.5, 100: 0.5, 128: 9, 160: 1.5, 192: 2, 256: 7, 320: 1.5, 384: 1.5, 512: 6, 640: 0.8, 768: 1, 1024: 2}
SIDE = {1: 0.5, 2: 0.7, 4: 3, 7: 3, 8: 5, 10: 0.5, 12: 0.6, 14: 4, 16: 7, 20: 0.6, 24: 1.2, 26: 0.7, 28: 5, 30: 0.4, 32: 9, 40: 0.6, 48: 1.5, 56: 3, 64: 6, 80: 0.7, 96: 1.5, 100: 0.4, 112: 2, 128: 4, 160: 0.7, 192: 0.5, 224: 2.5, 256: 2, 512: 0.3}
KERNELS = {(3, 1, 1, 0, 0): 30, (3, 2, 1, 0, 0): 9, (1, 1, 0, 0, 0): 6, (1, 2, 0, 0, 0): 3, (4, 2, 1, 0, 0): 5, (4, 2, 1, 1, 0): 5, (5, 1, 2, 0, 0): 4, (5, 1, 0, 0, 0): 3, (3, 1, 0, 0, 0): 4, (7, 2, 3, 0, 0): 3, (7, 1, 3, 0, 0): 2,
           (5, 2, 2, 0, 0): 1.5, (2, 2, 0, 1, 0): 3, (3, 2, 1, 1, 1): 2.5, (9, 1, 4, 0, 0): 0.5, (2, 2, 0, 0, 0): 0.8, (4, 4, 0, 0, 0): 0.6, (5, 2, 2, 1, 1): 0.7}


def pick(rng, shares):
    return rng.choices(list(shares), list(shares.values()))[0]


def ordinary(rng, kinds):
    """A convolution as most scripts have them: a third are layers of published networks and lines, the others of the shares above."""
    kind = rng.random()
    if kind < 0.27:
        row = json.loads(json.dumps(rng.choice(kinds["models"] + kinds["torchvision"])))
    elif kind < 0.34:
        row = random_line(rng)
    else:
        kernel, stride, padding, transposed, extra = pick(rng, KERNELS)
        c, side = pick(rng, WIDE), pick(rng, SIDE)
        k = rng.choice([c, c, 2 * c, c // 2]) if c > 4 and rng.random() < 0.85 else pick(rng, WIDE)
        row = layer((side, side), c, k, (kernel, kernel), (stride, stride), (padding, padding), 1, 1, bool(transposed)) | ({"o": [extra, extra]} if extra else {})
    row["in"] = [pick(rng, BATCH), *row["in"][1:]]
    row["dtype"], row["cl"] = pick(rng, {"fp32": 10, "fp16": 2, "bf16": 2}), rng.random() < 0.05
    return row


def draw(rng, kinds, shares):
    """One convolution; shares: how often each kind is drawn."""
    kind = rng.choices(list(shares), list(shares.values()))[0]
    if kind == "ordinary":
        row = ordinary(rng, kinds)
        return {f: row[f] for f in ("in", "w", "s", "p", "d", "g", "t", "o", "dtype", "cl") if f in row}
    if kind == "random":
        row = workspaces.random_layer(rng)
    elif kind == "random1":
        row = random_line(rng)
    elif kind == "random3":
        row = random_deep(rng)
    elif kind == "wave":
        row = random_wave(rng)
    elif kind == "wide":
        row = random_wide(rng)
    elif kind == "adapter":
        row = adapted(rng, json.loads(json.dumps(rng.choice(kinds[rng.choice(["torchvision", "models", "models", "line"])]))))
    elif kind == "near":
        row = near(rng, json.loads(json.dumps(rng.choice(kinds["torchvision"] + kinds["models"]))))
    else:
        row = json.loads(json.dumps(rng.choice(kinds[kind])))
    common = kind in ("models", "deep", "line") and rng.random() < 0.7
    n = rng.choice(COMMON if common else workspaces.BATCHES) if rng.random() < 0.95 else rng.randint(1, 200)
    if kind in ("deep", "random3", "wave") and rng.random() < 0.5 or kind in ("adapter", "wide") and rng.random() < 0.4:
        n = rng.choice([1, 2, 4, 8, 16])
    row["in"] = [n, *row["in"][1:]]
    row["dtype"] = rng.choice(["fp32", "fp32", "bf16", "fp16"])
    row["cl"] = rng.random() < 0.22
    return {f: row[f] for f in ("in", "w", "s", "p", "d", "g", "t", "o", "dtype", "cl") if f in row}
