"""Writes docs/measurements/model-types.md from what predict.py found: report.py RESULTS... > docs/measurements/model-types.md. Where files have a type twice, the last one counts."""
import collections
import json
import re
import sys

KINDS = [
    ("code for inference alone", ("is for inference alone", "cannot train", "Token2Wav")),
    ("layers that a torch.autograd.Function of its own computes again in backward: the script that trains it can be predicted", ("computes layers inside of",)),
    ("the sweep had no time left", ("not tried",)),
    ("the default configuration is not one that the code builds", ("cannot be built", "needs to be specified", "sub-configuration", "must be divisible", "Padding_idx", "Validation error", "Config' object has no attribute")),
    ("the default configuration is one that the code builds but does not run: it leaves out a number, or its numbers do not fit together", ("Split sizes", "KeyError", "topk()", "embed_dim must be")),
    ("needs a package that was not installed", ("requires the", "ImportError")),
    ("loads weights from the network", ("couldn't connect", "OSError")),
    ("a configuration of a part that has no model of its own", ("has no model of", "is no model by itself", "has no forward pass of its own", "nothing is known about the inputs of")),
    ("inputs that no rule makes: a session of a video, structures of proteins, tensors of another part", ("nothing is known about the input ",)),
    ("took longer than 60 seconds of CPU to read", ("not read within", "stopped")),
]


def kind_of(why):
    return next((name for name, words in KINDS if any(w in why for w in words)), "the inputs that were made do not fit, or its step depends on values")


def main():
    found = {}
    for name in sys.argv[1:]:
        for line in open(name):
            r = json.loads(line)
            if r["type"] not in found or r.get("answered") or not found[r["type"]].get("answered"):
                found[r["type"]] = r
    answered = [r for r in found.values() if r.get("answered")]
    rest = sorted((r for r in found.values() if not r.get("answered")), key=lambda r: r["type"])
    tasks = collections.Counter(r["task"] for r in answered).most_common()
    print(f"""# Every model type of transformers

`make model-types` reads every `model_type` of the installed transformers from its code (its default configuration with two layers, on tensors without data) and predicts each from the graph.
Where a family has a head with a loss for one of the tasks, that is the step; else the mean of an output is trained (task `features`), which the answer says.

2026-11-16, transformers 5.17, PyTorch 2.11: {len(found)} types were tried, {len(answered)} answered ({", ".join(f"{n} {t}" for t, n in tasks)}), {len(rest)} not.

| why not | types |
|---|---|""")
    for name, count in collections.Counter(kind_of(r["why"]) for r in rest).most_common():
        print(f"| {name} | {count} |")
    print("\n| type | reason |\n|---|---|")
    for r in rest:
        why = re.sub(r"/\S*/", "", r["why"].replace("\n", " ").replace("|", "/"))[:280].strip()
        print(f"| {r['type']} | {why} |")


main()
