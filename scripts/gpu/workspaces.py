"""Measures what cuDNN takes beside the operands of convolutions and recurrent layers on this card.

It draws layers the way published models have them, runs each pass alone and writes one JSON object per line. The first line names the card, its
compute capability, PyTorch and cuDNN. Ten minutes are enough for a table:

    python3 scripts/gpu/workspaces.py --minutes 10 --out rows.jsonl.gz
    go run ./internal/model/cudnn/grow -out internal/model/cudnn/sm86.table rows.jsonl.gz

`plimsoll doctor --measure-workspaces` runs this same file with the user's Python.
"""
import argparse
import gzip
import json
import math
import random
import sys
import time

import torch

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
BATCHES = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512]
CHANNELS = [1, 3, 4, 8, 12, 16, 24, 32, 40, 48, 64, 72, 80, 96, 112, 120, 128, 144, 160, 192, 240, 256, 320, 384, 480, 512, 640, 768, 960, 1024, 1280, 1536, 2048]
SIZES = [4, 7, 8, 14, 16, 24, 28, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 512, 640]
MOST_BYTES = 3 << 30  # of input and output together
MOST_WORK = 4e12  # multiplications of one pass: a longer one costs more time than it teaches
FIRST_IMAGE = 224


# ---- layers -------------------------------------------------------------------------------------------------------------------------------------------

def layer(src, c, k, kernel, stride, padding, size, groups=1, transposed=False, dilation=1):
    """A convolution without its batch, data type and memory format. size: one number, or rows and columns."""
    h, w = size if isinstance(size, tuple) else (size, size)
    first, second = (c, k) if transposed else (k, c)
    kh, kw = kernel if isinstance(kernel, tuple) else (kernel, kernel)
    ph, pw = padding if isinstance(padding, tuple) else (padding, padding)
    return {"src": src, "in": [0, c, h, w], "w": [first, second // groups, kh, kw], "s": [stride, stride], "p": [ph, pw], "d": dilation, "g": groups, "t": transposed}


def random_layer(rng):
    c, k = rng.choice(CHANNELS), rng.choice(CHANNELS)
    kernel = rng.choice([1, 1, 2, 3, 3, 3, 3, 4, 5, 7])
    stride = rng.choice([1, 1, 1, 1, 2, 2, 2, 4])
    padding = rng.choice([kernel // 2, kernel // 2, 0, 1])
    h = rng.choice(SIZES)
    w = h if rng.random() < 0.75 else rng.choice(SIZES)
    groups = 1
    kind = rng.random()
    if kind < 0.11:
        groups, k = c, c
    elif kind < 0.17 and c % 32 == 0 and k % 32 == 0:
        groups = 32
    return layer("random", c, k, kernel, stride, padding, (h, w), groups, rng.random() < 0.14, 2 if rng.random() < 0.055 else 1)


def residual(images):
    for image in images:
        s = image // 4
        yield layer("resnet", 3, 64, 7, 2, 3, image)
        before = 64
        for stage, width in enumerate((64, 128, 256, 512)):
            stride = 2 if stage else 1
            for wide, groups in ((1, 1), (2, 1), (2, 32), (4, 32), (4, 64)):
                inner, out = width * wide, width * 4
                yield layer("resnet", before if stage else 64, inner, 1, 1, 0, s)
                yield layer("resnet", inner, inner, 3, stride, 1, s, groups)
                yield layer("resnet", inner, inner, 3, 1, 1, s // stride, groups)
                yield layer("resnet", inner, out, 1, 1, 0, s // stride)
                yield layer("resnet", out, inner, 1, 1, 0, s // stride)
            yield layer("resnet", before if stage else 64, width * 4, 1, stride, 0, s)
            yield layer("resnet", max(64, width // 2), width, 3, stride, 1, s)
            yield layer("resnet", max(64, width // 2), width, 1, stride, 0, s)
            yield layer("resnet", width, width, 3, 1, 1, s // stride)
            before, s = width * 4, s // stride


def dense(images):
    for image in images:
        for first, growth, blocks in ((64, 32, (6, 12, 24, 16)), (64, 32, (6, 12, 32, 32)), (64, 32, (6, 12, 48, 32)), (96, 48, (6, 12, 36, 24))):
            c, s = first, image // 4
            for n in blocks:
                for _ in range(n):
                    yield layer("densenet", c, 4 * growth, 1, 1, 0, s)
                    yield layer("densenet", 4 * growth, growth, 3, 1, 1, s)
                    c += growth
                yield layer("densenet", c, c // 2, 1, 1, 0, s)
                c, s = c // 2, s // 2


def inverted(images):
    """MBConv blocks of MobileNet, MNASNet and EfficientNet at several widths, with squeeze and excitation."""
    stages = [(16, 24, 3, 2, 6), (24, 40, 5, 2, 6), (40, 80, 3, 2, 6), (80, 112, 5, 1, 6), (112, 192, 5, 2, 6), (192, 320, 3, 1, 6), (32, 16, 3, 1, 1), (24, 24, 3, 1, 3),
              (64, 96, 3, 1, 6), (40, 40, 5, 1, 3), (48, 64, 3, 2, 4), (96, 96, 5, 1, 6), (160, 160, 3, 1, 6), (128, 256, 3, 2, 4)]
    for image in images:
        for width in (0.5, 0.75, 1, 1.1, 1.2, 1.3, 1.4, 1.6, 1.8, 2):
            grow = lambda c: max(8, int(c * width + 4) // 8 * 8)
            s = image // 2
            for c, k, kernel, stride, expand in stages:
                c, k = grow(c), grow(k)
                inner = c * expand
                yield layer("mbconv", c, inner, 1, 1, 0, s)
                yield layer("mbconv", inner, inner, kernel, stride, kernel // 2, s, inner)
                s = max(7, s // stride)
                yield layer("mbconv", inner, k, 1, 1, 0, s)
                yield layer("mbconv", inner, max(4, c // 4), 1, 1, 0, 1)
                yield layer("mbconv", max(4, c // 4), inner, 1, 1, 0, 1)
            yield layer("mbconv", k, 1280, 1, 1, 0, s)
            yield layer("mbconv", 3, grow(32), 3, 2, 1, image)


def stacked(images):
    for image in images:
        s = image
        for c, k in ((3, 64), (64, 64), (64, 128), (128, 128), (128, 256), (256, 256), (256, 512), (512, 512), (512, 512)):
            yield layer("vgg", c, k, 3, 1, 1, s)
            if c == k:
                s //= 2
        for c, k in ((3, 96), (96, 16), (16, 64), (128, 32), (32, 128), (256, 48), (48, 192), (384, 64), (64, 256), (512, 1000)):
            yield layer("squeezenet", c, k, 1, 1, 0, image // 8 - 1)
            yield layer("squeezenet", c, k, 3, 1, 1, image // 8 - 1)
    for c, k, kernel, stride, padding, s in ((3, 64, 11, 4, 2, 224), (64, 192, 5, 1, 2, 27), (192, 384, 3, 1, 1, 13), (384, 256, 3, 1, 1, 13), (3, 96, 4, 4, 0, 224), (3, 768, 16, 16, 0, 224), (3, 192, 16, 16, 0, 224)):
        yield layer("alexnet", c, k, kernel, stride, padding, s)
    for c, s in ((96, 56), (192, 28), (384, 14), (768, 7), (128, 56), (256, 28), (512, 14), (1024, 7)):
        yield layer("convnext", c, c, 7, 1, 3, s, c)
        yield layer("convnext", c, 2 * c, 2, 2, 0, s)


def generative():
    """DCGAN and its kin, pix2pix and CycleGAN, U-Net, autoencoders, diffusion, super resolution, and the small nets of tutorials."""
    for f in (32, 64, 128):  # DCGAN of pytorch/examples: transposed 4x4, from a vector to 64x64
        yield layer("dcgan", 100, 8 * f, 4, 1, 0, 1, 1, True)
        for i, s in ((8, 4), (4, 8), (2, 16), (1, 32)):
            yield layer("dcgan", i * f, max(1, i // 2) * f if i > 1 else 3, 4, 2, 1, s, 1, True)
        for c, k, s in ((3, f, 64), (1, f, 64), (f, 2 * f, 32), (2 * f, 4 * f, 16), (4 * f, 8 * f, 8), (f, 1, 32)):
            yield layer("dcgan", c, k, 4, 2, 1, s)
        yield layer("dcgan", 8 * f, 1, 4, 1, 0, 4)
    for image in (16, 28, 32, 64, 128, 256):  # upsample and convolve
        for c, k in ((128, 128), (128, 64), (64, 64), (64, 1), (64, 3), (1, 64), (3, 64), (256, 128), (256, 256), (512, 256), (64, 32), (32, 32), (32, 64), (16, 16), (16, 32), (32, 3), (32, 1)):
            yield layer("generator", c, k, 3, 1, 1, image)
        for c, k in ((1, 16), (3, 16), (16, 32), (32, 64), (64, 128), (128, 256), (256, 512)):
            yield layer("critic", c, k, 3, 2, 1, image)
            yield layer("critic", c, k, 4, 2, 1, image)
            yield layer("critic", k, c, 4, 2, 1, image // 2, 1, True)
            yield layer("critic", k, c, 3, 2, 1, image // 2, 1, True)
        yield layer("cyclegan", 3, 64, 7, 1, 0, image + 6)
        yield layer("cyclegan", 64, 3, 7, 1, 0, image + 6)
        yield layer("cyclegan", 256, 256, 3, 1, 0, image // 4 + 2)
        yield layer("cyclegan", 512, 512, 4, 1, 1, image // 8)
        yield layer("cyclegan", 512, 1, 4, 1, 1, image // 8)
    for image in (64, 96, 128, 160, 192, 256, 320, 384, 512, 572):  # U-Net, and pix2pix with 4x4
        s = image
        for c, k in ((3, 64), (64, 128), (128, 256), (256, 512), (512, 1024)):
            yield layer("unet", c, k, 3, 1, 1, s)
            yield layer("unet", 1, k, 3, 1, 1, s)
            yield layer("unet", k, k, 3, 1, 1, s)
            yield layer("unet", 2 * k, k, 3, 1, 1, s)
            yield layer("unet", k, k // 2, 2, 2, 0, s, 1, True)
            yield layer("pix2pix", c, k, 4, 2, 1, s)
            yield layer("pix2pix", 2 * k, c, 4, 2, 1, max(1, s // 2), 1, True)
            s //= 2
        yield layer("unet", 64, 2, 1, 1, 0, image)
        yield layer("unet", 64, 1, 1, 1, 0, image)
    for image in (14, 28, 32, 64):
        for c, k, kernel, stride, padding in ((1, 32, 3, 1, 0), (32, 64, 3, 1, 0), (1, 16, 5, 1, 2), (16, 32, 5, 1, 2), (1, 6, 5, 1, 0), (3, 6, 5, 1, 0), (6, 16, 5, 1, 0), (1, 10, 5, 1, 0), (10, 20, 5, 1, 0),
                                              (1, 64, 5, 1, 2), (3, 64, 5, 1, 2), (64, 64, 3, 1, 1), (64, 32, 3, 1, 1), (32, 9, 3, 1, 1), (3, 64, 3, 1, 1), (64, 128, 3, 2, 1), (3, 16, 3, 1, 1), (16, 16, 3, 1, 1), (32, 64, 3, 2, 1)):
            yield layer("small", c, k, kernel, stride, padding, image)
            yield layer("small", c, k, kernel, stride, padding, 2 * image - 2)
    for image in (64, 128, 224, 256):  # detection, segmentation: dilated and thin kernels
        s = image // 8
        for c in (256, 512, 1024, 2048):
            yield layer("deeplab", c, 256, 3, 1, 12, s, 1, False, 12)
            yield layer("deeplab", c, 256, 3, 1, 2, s, 1, False, 2)
            yield layer("inception", c, 192, (1, 7), 1, (0, 3), s)
            yield layer("inception", c, 192, (7, 1), 1, (3, 0), s)


def published():
    """Layers of published models, unbatched, none twice."""
    seen = {}
    images = (FIRST_IMAGE, FIRST_IMAGE // 2, FIRST_IMAGE * 2, 32, 64, 256, 320)
    for made in (residual(images), dense(images[:2]), inverted(images[:2]), stacked(images), generative()):
        for one in made:
            if min(one["in"][2:]) >= 1:
                seen.setdefault(json.dumps([one[f] for f in ("in", "w", "s", "p", "d", "g", "t")]), one)
    return list(seen.values())


def read_layers(path):
    """Layers of a file of rows: their batches, data types and formats are drawn again."""
    with (gzip.open if path.endswith(".gz") else open)(path, "rt") as f:
        return [r for r in map(json.loads, f) if "w" in r]


def draw(rng, layers, share, last):
    """One convolution: of the given layers, or random."""
    row = dict(rng.choice(layers)) if layers and rng.random() < share else random_layer(rng)
    row["in"] = [rng.choice(BATCHES + [rng.choice(BATCHES) * 5]) if rng.random() < 0.9 else rng.randint(1, 200), *row["in"][1:]]
    row["dtype"] = rng.choice(["fp32", "fp32", "bf16", "fp16"])
    row["cl"] = rng.random() < last
    return {f: row[f] for f in ("src", "in", "w", "s", "p", "d", "g", "t", "dtype", "cl")}


def out_size(row):
    sizes = [row["in"][0], row["w"][1] * row["g"] if row["t"] else row["w"][0]]
    for i in (0, 1):
        size, kernel, stride, padding = row["in"][i + 2], row["d"] * (row["w"][i + 2] - 1) + 1, row["s"][i], row["p"][i]
        sizes.append((size - 1) * stride - 2 * padding + kernel if row["t"] else (size + 2 * padding - kernel) // stride + 1)
    return sizes


def worth_it(row):
    out = out_size(row)
    if min(out) < 1:
        return False
    width = 4 if row["dtype"] == "fp32" else 2
    taps = math.prod(row["w"][1:]) * math.prod(row["in"] if row["t"] else out)
    return (math.prod(row["in"]) + math.prod(out)) * width <= MOST_BYTES and math.prod(row["in"]) < 1 << 31 and math.prod(out) < 1 << 31 and taps <= MOST_WORK


# ---- convolutions -------------------------------------------------------------------------------------------------------------------------------------

class Refused(Exception):
    """An allocation was refused, so cuDNN fell back to another plan: the row would be false."""


class Meter:
    """Bytes that were asked for, not rounded to blocks."""

    def stats(self):
        return torch.cuda.memory_stats()

    def start(self):
        torch.cuda.reset_peak_memory_stats()
        s = self.stats()
        self.refused, self.before = s["num_ooms"], s["requested_bytes.all.current"]

    def stop(self):
        """What was alive at the peak beyond what was alive before, and what remains of that."""
        s = self.stats()
        if s["num_ooms"] != self.refused:
            raise Refused
        return s["requested_bytes.all.peak"] - self.before, s["requested_bytes.all.current"] - self.before


def operands(row):
    like = {"device": "cuda", "dtype": DTYPES[row["dtype"]], "memory_format": torch.channels_last if row["cl"] else torch.contiguous_format}
    return torch.empty(row["in"], **like).zero_(), torch.empty(row["w"], **like).zero_()


def measure_convolution(row, meter):
    x, w = operands(row)
    shape = (row["s"], row["p"], [row["d"]] * 2, row["t"], [0, 0], row["g"])
    meter.start()
    y = torch.ops.aten.convolution(x, w, None, *shape)
    peak, left = meter.stop()
    m = {"out": list(y.shape), "fwd": peak - left, "fwd_keep": left - y.numel() * y.element_size()}
    for name, mask in (("dgrad", [True, False, False]), ("wgrad", [False, True, False]), ("both", [True, True, False])):
        meter.start()
        grads = torch.ops.aten.convolution_backward(y, x, w, None, *shape, mask)
        peak, left = meter.stop()
        m[name], m[name + "_peak"] = peak - left, peak
        del grads
    return {"m": m}


def measure_benchmark(row, meter):
    """The call that tries all algorithms, and the one after it."""
    torch.backends.cudnn.benchmark = True
    try:
        return {"first": measure_convolution(row, meter)["m"], "later": measure_convolution(row, meter)["m"]}
    finally:
        torch.backends.cudnn.benchmark = False


def kernels_of(row):
    """The names of the kernels of each pass, which name cuDNN's engine."""
    x, w = operands(row)
    shape = (row["s"], row["p"], [row["d"]] * 2, row["t"], [0, 0], row["g"])
    y = torch.ops.aten.convolution(x, w, None, *shape)
    calls = {"fwd": lambda: torch.ops.aten.convolution(x, w, None, *shape)}
    for name, mask in (("dgrad", [True, False, False]), ("wgrad", [False, True, False])):
        calls[name] = lambda mask=mask: torch.ops.aten.convolution_backward(y, x, w, None, *shape, mask)
    names = {}
    for name, call in calls.items():
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA], acc_events=True) as p:
            call()
            torch.cuda.synchronize()
        names[name] = [e.name[:160] for e in p.events() if "emset" not in e.name]
    return {"kernels": names}


# ---- recurrent layers ---------------------------------------------------------------------------------------------------------------------------------

def draw_recurrent(rng, plain):
    """A recurrent layer; plain: without projections, packed sequences and inference."""
    kind = rng.choice(["LSTM", "LSTM", "GRU", "RNN"])
    layers = rng.choice([1, 1, 2, 2, 3, 4])
    row = {
        "kind": kind, "in": rng.choice([28, 64, 100, 128, 200, 256, 300, 512, 650, 1024, 1500]), "h": rng.choice([32, 51, 64, 96, 128, 160, 200, 256, 300, 384, 512, 650, 768, 1024, 1500]),
        "layers": layers, "bi": rng.random() < 0.28, "drop": rng.choice([0, 0.2, 0.5]) if layers > 1 else 0, "n": rng.choice([1, 4, 10, 16, 20, 32, 64, 128, 256, 512, 1000]),
        "len": rng.choice([1, 10, 20, 28, 35, 50, 70, 128, 200, 256, 400, 512]), "dtype": rng.choice(["fp32", "fp32", "bf16", "fp16"]), "bf": rng.random() < 0.5,
        "proj": 0, "packed": False, "train": True,
    }
    if not plain:
        row["packed"], row["train"] = rng.random() < 0.3, rng.random() < 0.6
        if kind == "LSTM" and rng.random() < 0.3:
            row["proj"] = max(1, row["h"] // rng.choice([2, 4]))
    return row


def measure_recurrent(row, meter):
    dtype, proj = DTYPES[row["dtype"]], {"proj_size": row["proj"]} if row["proj"] else {}
    m = getattr(torch.nn, row["kind"])(row["in"], row["h"], row["layers"], batch_first=row["bf"], dropout=row["drop"], bidirectional=row["bi"], device="cuda", dtype=dtype, **proj)
    m.train(row["train"])
    shape = (row["n"], row["len"], row["in"]) if row["bf"] else (row["len"], row["n"], row["in"])
    x = torch.zeros(shape, device="cuda", dtype=dtype, requires_grad=row["train"])
    given = x
    if row["packed"]:
        lengths = [max(1, row["len"] - i * row["len"] // (2 * row["n"])) for i in range(row["n"])]
        given = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=row["bf"])
    meter.start()
    with torch.set_grad_enabled(row["train"]):
        out, states = m(given)
    peak, left = meter.stop()
    data = out.data if row["packed"] else out
    facts = {"params": sum(p.numel() * p.element_size() for p in m.parameters()), "out": data.numel() * data.element_size()}
    if row["packed"]:
        facts["rows"] = data.shape[0]
    found = {"fwd_peak": peak, "fwd_keep": left}
    if row["train"]:
        g = torch.zeros_like(data)
        meter.start()
        data.backward(g)
        found["bwd_peak"], found["bwd_net"] = meter.stop()
    return {**facts, "m": found}


# ---- the file -----------------------------------------------------------------------------------------------------------------------------------------

def header():
    p = torch.cuda.get_device_properties(0)
    states = torch._cudnn_init_dropout_state(0.5, True, 1, dtype=torch.uint8, device="cuda")  # made once for dropout between recurrent layers, and kept
    return {"card": p.name, "capability": [p.major, p.minor], "sms": p.multi_processor_count, "memory": p.total_memory, "torch": torch.__version__,
            "cudnn": torch.backends.cudnn.version(), "tf32": torch.backends.cudnn.allow_tf32, "dropout_state": states.numel()}


def measured(row, what, meter):
    """The row with what was measured; None where the card has no room or cuDNN no kernel for it."""
    try:
        found = {"conv": measure_convolution, "benchmark": measure_benchmark, "recurrent": measure_recurrent}[what](row, meter)
    except (Refused, torch.OutOfMemoryError):
        torch.cuda.empty_cache()
        return None
    except RuntimeError as problem:
        if "CUDA error" in str(problem):
            raise
        return None
    if torch.cuda.memory_reserved() > torch.cuda.get_device_properties(0).total_memory // 8:
        torch.cuda.empty_cache()
    return {**row, **found}


def plan(o, rng):
    """Every layer of a file as it stands, or draws without end: of the time, most goes to convolutions."""
    if o.again:
        for row in read_layers(o.again):
            yield "conv", {f: row[f] for f in ("src", "in", "w", "s", "p", "d", "g", "t", "dtype", "cl")}
        return
    layers = published() if not o.layers else read_layers(o.layers)
    kinds = o.only.split(",") if o.only else ["conv"] * 12 + ["benchmark", "recurrent"]
    while True:
        what = rng.choice(kinds)
        if what == "recurrent":
            yield what, draw_recurrent(rng, rng.random() < 0.5)
            continue
        row = draw(rng, layers, o.share, o.last)
        if worth_it(row):
            yield what, row


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", default="-", help="file to write, gzipped where it ends in .gz; - for standard output")
    p.add_argument("--minutes", type=float, default=10)
    p.add_argument("--seed", type=int, default=1, help="another seed draws other layers")
    p.add_argument("--only", default="", help="kinds to measure, of conv, benchmark, recurrent")
    p.add_argument("--layers", default="", help="a file of rows to take layers from, instead of those listed here")
    p.add_argument("--share", type=float, default=0.5, help="share of convolutions that are layers of models; the others are random")
    p.add_argument("--last", type=float, default=0.3, help="share of convolutions in channels_last")
    p.add_argument("--again", default="", help="a file of rows to measure once more as they are")
    p.add_argument("--kernels", action="store_true", help="name the kernels of each pass too (slow)")
    p.add_argument("--memory", type=float, default=0, help="GiB this process may take")
    p.add_argument("--list", type=int, default=0, metavar="N", help="print the first N draws and measure nothing (needs no GPU)")
    o = p.parse_args()
    rows = plan(o, random.Random(o.seed))
    if o.list:
        for _, (what, row) in zip(range(o.list), rows):
            print(json.dumps({"kind_of_row": what, **row}))
        return
    if not torch.cuda.is_available() or not torch.backends.cudnn.is_available():
        sys.exit("workspaces.py: PyTorch sees no GPU with cuDNN here; nothing was measured")
    if o.memory:
        torch.cuda.set_per_process_memory_fraction(min(1, o.memory * 2**30 / torch.cuda.get_device_properties(0).total_memory))
    out = sys.stdout if o.out == "-" else (gzip.open if o.out.endswith(".gz") else open)(o.out, "wt")
    meter, end, count, shown = Meter(), time.monotonic() + 60 * o.minutes, 0, time.monotonic()
    with out:
        print(json.dumps(header()), file=out)
        for what, row in rows:
            if time.monotonic() > end:
                break
            found = measured(row, what, meter)
            if not found:
                continue
            if o.kernels and what == "conv":
                found.update(kernels_of(row))
            print(json.dumps(found, separators=(",", ":")), file=out)
            count += 1
            if time.monotonic() > shown + 10:
                shown = time.monotonic()
                print(f"{count} layers measured, {max(0, end - shown) / 60:.1f} minutes left", file=sys.stderr)
    print(f"{count} layers measured", file=sys.stderr)


if __name__ == "__main__":
    main()
