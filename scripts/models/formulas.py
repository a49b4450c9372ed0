"""Lists what every autograd node of the installed PyTorch saves, from the header that its own generator writes: formulas.py > internal/model/graphrun/formulas.txt"""
import collections
import os
import re

import torch

header = os.path.join(os.path.dirname(torch.__file__), "include", "torch", "csrc", "autograd", "generated", "Functions.h")
nodes = collections.defaultdict(dict)
for name, number, body in re.findall(r"^struct TORCH_API (\w+?)Backward(\d+) [^{]*\{(.*?)^\};", open(header).read(), re.M | re.S):
    if name.startswith("Foreach") or re.search(r"(Backward|AutogradNestedTensor|AutogradNonNestedTensor)$", name):
        continue
    saved = re.findall(r"SavedVariable>? (\w+)_(?:;|\n)", body)
    nodes[name.lower()][int(number)] = " ".join(saved)
print(f"# What the nodes of autograd save (torch/csrc/autograd/generated/Functions.h of PyTorch {torch.__version__.split('+')[0]}); overloads in order, between bars. Written by scripts/models/formulas.py.")
for name in sorted(nodes):
    kept = [nodes[name][i] for i in sorted(nodes[name])]
    while len(kept) > 1 and kept[-1] == kept[-2]:
        kept.pop()
    print(f"{name}: {' | '.join(kept)}".rstrip())
