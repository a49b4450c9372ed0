"""Asks cuDNN which plan it would take for convolutions, without running them: the rows of workspaces.py, thirty times as fast.

PyTorch runs the first plan of cuDNN's heuristic that can be built (aten/src/ATen/native/cudnn/Conv_v8.cpp), so that its workspace is what a convolution takes. Of 4,089
measured passes on an H200, 4,083 were told to the byte and the other six have no plan in the first list. The library needs a GPU of any kind to be asked: without a driver it leaves
out kernels. With --all the largest workspace of all plans is written as `first`: what torch.backends.cudnn.benchmark = True tries in the first call.

    python3 scripts/gpu/plans.py --rows 11000 --seed 9701 --out asked.jsonl.gz
    python3 scripts/gpu/plans.py --rows 18000 --seed 9720 --shares deep:50,random3:50 --out deep.jsonl.gz
    python3 scripts/gpu/plans.py --all --minutes 4 --seed 9730 --out trials.jsonl.gz

Nothing is measured, so that a seed gives the same rows again; a process asks for 45 a second, and sixteen can run beside each other.

The names of descriptors and attributes are those of cudnn_graph.h.
"""
import argparse
import ctypes
import gzip
import json
import os
import random
import sys
import time

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import layers
import workspaces

# cudnnBackendAttributeType_t
DATA_TYPE, INT64, FLOAT, CONVOLUTION_MODE, HEUR_MODE, NUMERICAL_NOTE, DESCRIPTOR, INT32 = 1, 3, 4, 7, 8, 11, 15, 23
C_TYPES = {INT64: ctypes.c_int64, FLOAT: ctypes.c_float}
# cudnnBackendDescriptorType_t
CONVOLUTION, ENGINE, ENGINECFG, ENGINEHEUR, EXECUTION_PLAN, OPERATIONGRAPH, TENSOR, DEVICEPROP = 1, 2, 3, 4, 5, 15, 17, 38
DTYPES = {"fp32": 0, "fp16": 2, "bf16": 9}  # cudnnDataType_t
DOWN_CONVERT_INPUTS = 1  # a numerical note; PyTorch passes over such plans for fp32
INSTANT, FALLBACK = 0, 2  # cudnnBackendHeurMode_t
# Descriptor of each pass, and its attributes for convolution, x, y, w, alpha, beta.
PASSES = {"fwd": (10, 702, 704, 705, 703, 700, 701), "dgrad": (12, 708, 710, 711, 709, 706, 707), "wgrad": (11, 714, 716, 717, 715, 712, 713)}


class Refused(Exception):
    """cuDNN has no such plan."""


def library():
    torch.nn.functional.conv2d(torch.zeros(1, 1, 3, 3, device="cuda"), torch.zeros(1, 1, 3, 3, device="cuda"))  # loads it
    lib = ctypes.CDLL("libcudnn.so.9")
    pointer, count = ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64)
    lib.cudnnBackendCreateDescriptor.argtypes = [ctypes.c_int, ctypes.POINTER(pointer)]
    lib.cudnnBackendDestroyDescriptor.argtypes = lib.cudnnBackendFinalize.argtypes = [pointer]
    lib.cudnnBackendSetAttribute.argtypes = [pointer, ctypes.c_int, ctypes.c_int, ctypes.c_int64, pointer]
    lib.cudnnBackendGetAttribute.argtypes = [pointer, ctypes.c_int, ctypes.c_int, ctypes.c_int64, count, pointer]
    return lib


class Descriptor:
    def __init__(self, lib, kind):
        self.lib, self.at, self.parts = lib, ctypes.c_void_p(), []
        self.check(lib.cudnnBackendCreateDescriptor(kind, ctypes.byref(self.at)))

    def check(self, status):
        if status:
            raise Refused(status)

    def set(self, name, kind, *values):
        if kind == DESCRIPTOR:
            self.parts += values
            array = (ctypes.c_void_p * len(values))(*[v.at for v in values])
        else:
            array = (C_TYPES.get(kind, ctypes.c_int32) * len(values))(*values)
        self.check(self.lib.cudnnBackendSetAttribute(self.at, name, kind, len(values), array))
        return self

    def done(self):
        self.check(self.lib.cudnnBackendFinalize(self.at))
        return self

    def get(self, name, kind, most):
        count, array = ctypes.c_int64(), (C_TYPES.get(kind, ctypes.c_int32) * max(1, most))()
        self.check(self.lib.cudnnBackendGetAttribute(self.at, name, kind, most, ctypes.byref(count), array if most else None))
        return list(array)[: count.value] if most else count.value

    def made(self, name, kind, count):
        """Descriptors of a kind, filled from an attribute."""
        out = [Descriptor(self.lib, kind) for _ in range(count)]
        array, got = (ctypes.c_void_p * count)(*[d.at for d in out]), ctypes.c_int64()
        self.check(self.lib.cudnnBackendGetAttribute(self.at, name, DESCRIPTOR, count, ctypes.byref(got), array))
        return out[: got.value]

    def __del__(self):
        if self.at:
            self.lib.cudnnBackendDestroyDescriptor(self.at)


def strides(shape, last):
    out, n = [0] * len(shape), 1
    for i in [1, *range(len(shape) - 1, 1, -1), 0] if last else range(len(shape) - 1, -1, -1):
        out[i], n = n, n * shape[i]
    return out


class Asker:
    def __init__(self):
        self.lib = library()
        self.card = self.new(DEVICEPROP).set(2700, INT32, 0).done()

    def new(self, kind):
        return Descriptor(self.lib, kind)

    def tensor(self, shape, row, name):
        return self.new(TENSOR).set(901, DATA_TYPE, DTYPES[row["dtype"]]).set(902, INT64, *shape).set(903, INT64, *strides(shape, row["cl"])).set(906, INT64, ord(name)).set(900, INT64, 32).done()

    def graph(self, role, row, x, y):
        kind, conv, at_x, at_y, at_w, alpha, beta = PASSES[role]
        pads, n = row["p"], len(row["s"])
        shape = self.new(CONVOLUTION).set(100, DATA_TYPE, 0).set(101, CONVOLUTION_MODE, 1).set(106, INT64, n).set(102, INT64, *[row["d"]] * n).set(103, INT64, *row["s"]).set(105, INT64, *pads).set(104, INT64, *pads).done()
        op = self.new(kind).set(at_x, DESCRIPTOR, self.tensor(x, row, "x")).set(at_y, DESCRIPTOR, self.tensor(y, row, "y")).set(at_w, DESCRIPTOR, self.tensor(row["w"], row, "w"))
        op.set(conv, DESCRIPTOR, shape).set(alpha, FLOAT, 1.0).set(beta, FLOAT, 0.0).done()
        return self.new(OPERATIONGRAPH).set(801, DESCRIPTOR, op).done()

    def sizes(self, role, row, x, y):
        """The workspaces of the plans of a pass, in the order in which PyTorch takes them."""
        graph = self.graph(role, row, x, y)
        for mode in (INSTANT, FALLBACK):
            try:
                heuristic = self.new(ENGINEHEUR).set(201, DESCRIPTOR, graph).set(200, HEUR_MODE, mode).set(204, DESCRIPTOR, self.card).done()
                plans = heuristic.made(202, ENGINECFG, heuristic.get(202, DESCRIPTOR, 0))
            except Refused:
                continue
            for plan in plans:
                try:
                    if row["dtype"] == "fp32" and self.converts(plan):
                        continue
                    yield self.new(EXECUTION_PLAN).set(401, DESCRIPTOR, plan).set(407, DESCRIPTOR, self.card).done().get(402, INT64, 1)[0]
                except Refused:
                    continue

    def converts(self, plan):
        (engine,) = plan.made(300, ENGINE, 1)
        notes = engine.get(1303, NUMERICAL_NOTE, 0)
        return notes > 0 and DOWN_CONVERT_INPUTS in engine.get(1303, NUMERICAL_NOTE, notes)

    def ask(self, row, every):
        x, y, roles = row["in"], layers.out_size(row), ("fwd", "dgrad", "wgrad")
        found = {"out": y}
        if row["t"]:
            x, y, roles = y, x, ("dgrad", "fwd", "wgrad")
        for name, role in zip(("fwd", "dgrad", "wgrad"), roles):
            sizes = self.sizes(role, row, x, y)
            size = max(sizes, default=None) if every else next(sizes, None)
            if size is None:
                return None
            found[name] = size
        return found


def by_pytorch(row):
    """Depthwise convolutions of contiguous tensors run in kernels of PyTorch's own, mostly."""
    return row["g"] > 1 and row["g"] == row["in"][1] and not row["t"] and not row["cl"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", required=True, help="file to write, gzipped where it ends in .gz")
    p.add_argument("--minutes", type=float, default=10, help="stop after so long")
    p.add_argument("--rows", type=int, default=1 << 30, help="stop after so many")
    p.add_argument("--seed", type=int, default=1, help="another seed draws other layers")
    p.add_argument("--shares", default=layers.SHARES, help="how often each kind is drawn: random, random1 and random3 for random layers of two, one and three dimensions, near for layers like published ones, adapter for LoRA beside them, wave for sound, wide for large kernels, and the kinds of layers.json.gz")
    p.add_argument("--all", action="store_true", help="the largest workspace of all plans, instead of that of the first")
    o = p.parse_args()
    if not torch.cuda.is_available():
        sys.exit("plans.py: PyTorch sees no GPU here, and without one cuDNN names other plans; nothing was asked")
    asker, rng, kinds = Asker(), random.Random(o.seed), layers.published()
    shares = {kind: float(share) for kind, share in (s.split(":") for s in o.shares.split(","))}
    end, count = time.monotonic() + 60 * o.minutes, 0
    with (gzip.open if o.out.endswith(".gz") else open)(o.out, "wt") as out:
        print(json.dumps(workspaces.header()), file=out)
        while time.monotonic() < end and count < o.rows:
            row = layers.draw(rng, kinds, shares)
            if not layers.worth_it(row) or by_pytorch(row):
                continue
            found = asker.ask(row, o.all)
            if found:
                count += 1
                print(json.dumps({**row, "first" if o.all else "m": found}, separators=(",", ":")), file=out)


if __name__ == "__main__":
    main()
