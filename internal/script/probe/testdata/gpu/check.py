"""Runs plimsoll against real programs on a real GPU and writes one table.

    check.py PLIMSOLL OUT.md [fitting healthy sick overhead predictions]

Sick programs must be explained with the right cause, a capped program must fit by itself with the same loss curve, recording must stay within its budget,
peaks predicted from captures must be near the measured ones.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
PLIMSOLL, OUT = os.path.abspath(sys.argv[1]), sys.argv[2]
PYTHON = sys.executable

# Program -> ids of findings any of which names its cause.
SICK = {
    "leak_list": ["growth"],
    "leak_without_backward": ["eval-graph-kept", "growth"],
    "outputs_kept": ["growth", "outputs-held", "eval-outputs-kept"],
    "dataset_on_gpu": ["dataset-on-gpu"],
    "batch_too_large": ["activations-dominate"],
    "exception_holds": ["exception-holds-tensors"],
    "float64": ["precision-too-high"],
    "fragmentation": ["fragmentation"],
    "model_too_large": ["model-too-large", "model-load"],
    "optimizer_state": ["optimizer-state-first-step"],
}


def run(*args, env=None, limit=180):
    started = time.time()
    try:
        done = subprocess.run(args, env={**os.environ, **(env or {})}, capture_output=True, text=True, timeout=limit)
        code, out, err = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as late:
        code, out, err = 124, (late.stdout or b"").decode(), (late.stderr or b"").decode()
    return code, out, err, time.time() - started


class Table(list):
    """Lines that are in the file as soon as they are known, should the time run out."""

    def __init__(self, path):
        super().__init__()
        self.file = open(path, "w")

    def append(self, line):
        self += [line]

    def __iadd__(self, lines):
        self.file.write("".join(line + "\n" for line in lines))
        self.file.flush()
        return super().__iadd__(lines)


def sick(lines, folder):
    lines += ["", "## Sick programs, each `plimsoll run --report DIR -- python PROGRAM.py`, all at once on the card", "",
              "| program | exit | first finding | confidence | place | right | seconds |", "|---|---|---|---|---|---|---|"]
    with ThreadPoolExecutor(len(SICK)) as pool:
        lines += list(pool.map(lambda name: explained(name, folder), SICK))


def explained(name, folder):
    """The table's line of one sick program."""
    report = os.path.join(folder, name)
    code, _, err, seconds = run(PLIMSOLL, "run", "--report", report, "--", PYTHON, os.path.join(HERE, name + ".py"))
    with open(os.path.join(report, "screen.txt"), "w") as f:
        f.write(err)
    snapshots = glob.glob(os.path.join(report, "rank*.pickle"))
    finding = {"id": "no snapshot", "confidence": 0, "where": []}
    if snapshots:
        _, out, problem, _ = run(PLIMSOLL, "explain", "--json", *snapshots)
        try:
            finding = (json.loads(out)["findings"] or [finding])[0]
        except (ValueError, KeyError) as failure:
            finding["id"] = f"explain failed: {failure} {problem[-200:]}"
    place = (finding.get("where") or [{}])[0]
    where = f"{os.path.basename(place.get('file', ''))}:{place.get('line', '')}"
    right = "yes" if finding["id"] in SICK[name] else "NO, want " + "/".join(SICK[name])
    return f"| {name} | {code} | {finding['id']} | {finding.get('confidence', 0):.2f} | {where} | {right} | {seconds:.0f} |"


# Steps timed: launch-bound and GPU-bound, and the modes of recording to try on them. "none" is Python without plimsoll; it comes twice, and the
# difference between the two is what the machine itself varies by.
STEPS = (
    ("launch-bound, 8 × 512", ("8", "512", "260"), ("none", "auto", "light", "stacks", "none")),
    ("GPU-bound, 32 × 1024", ("32", "1024", "120"), ("none", "auto", "stacks", "none")),
)


def overhead(lines, folder):
    lines += ["", "## What recording costs: GPT-2 small under bf16 autocast, `gpt2_time.py`, over the steps after 60 of warm-up", "",
              "| step | mode | mean ms | median ms | mean against none | median against none |", "|---|---|---|---|---|---|"]
    for label, args, modes in STEPS:
        base = None
        for mode in modes:
            command = [PYTHON, os.path.join(HERE, "gpt2_time.py"), *args]
            if mode != "none":
                command = [PLIMSOLL, "run", "--record", mode, "--", *command]
            _, out, err, _ = run(*command)
            found = re.search(r"mean_ms=([\d.]+) median_ms=([\d.]+)", out)
            if not found:
                lines.append(f"| {label} | {mode} | failed: {err[-200:]!r} | | | |")
                continue
            mean, median = map(float, found.groups())
            base = base or (mean, median)
            lines.append(f"| {label} | {mode} | {mean:.2f} | {median:.2f} | {100 * (mean / base[0] - 1):+.1f} % | {100 * (median / base[1] - 1):+.1f} % |")


# What is fitted under a cap of 4 GiB: a batch that has to be split, and one long sample that has to be checkpointed; each foreseen, and learnt by dying.
CAPPED = (("a batch of 64 × 512", ()), ("one sample of 16,384", ("1", "16384")))


def fitting(lines, folder):
    script, capped = os.path.join(HERE, "fit_capped.py"), {"CAP_GIB": "4"}
    lines += ["", "## Programs that die at their cap, made to fit: `CAP_GIB=4 plimsoll run --fit --losses [--no-predict] -- python fit_capped.py …`"]
    for label, args in CAPPED:
        code, out, err, _ = run(PYTHON, script, *args)
        lines += ["", f"### {label}", ""]
        if code:
            lines.append(f"the uncapped run failed: {err[-300:]!r}")
            continue
        whole = json.loads(out.strip().splitlines()[-1])
        dead, _, _, _ = run(PYTHON, script, *args, env=capped)
        lines.append(f"- without plimsoll, capped: exit {dead}; uncapped: {len(whole)} steps, loss from {whole[0]:.4f} to {whole[-1]:.4f}")
        for flags in ((), ("--no-predict",)):
            fit_one(lines, os.path.join(folder, "-".join(["fit", *args, *flags])), whole, flags, [PYTHON, script, *args], capped)


def fit_one(lines, report, whole, flags, command, env):
    code, out, err, seconds = run(PLIMSOLL, "run", "--fit", "--losses", *flags, "--report", report, "--", *command, env=env, limit=240)
    notes = [json.load(open(p)) for p in glob.glob(os.path.join(report, "rank*.json"))]
    losses = notes[0]["fit"]["losses"] if notes else []
    if not losses and code == 0:
        losses = json.loads(out.strip().splitlines()[-1])  # no batch was split: what the script printed is the loss of whole ones
    far = max((abs(a - b) for a, b in zip(whole, losses)), default=float("nan"))
    lines += [f"- `--fit{' '.join(['', *flags])}`: exit {code} in {seconds:.0f} s, {len(losses)} steps, largest difference of the two loss curves {far:.2e}",
              *(f"  - `{line}`" for line in err.splitlines() if line.startswith("plimsoll:"))]


def healthy(lines, folder):
    lines += ["", "## A healthy run", ""]
    code, _, err, _ = run(PLIMSOLL, "run", "--report", os.path.join(folder, "healthy"), "--", PYTHON, os.path.join(HERE, "fit_capped.py"))
    lines += [f"- exit {code}", *(f"- `{line}`" for line in err.splitlines() if line.startswith("plimsoll:"))]


SHAPES = ("mlp", "vgg", "amp", "attention", "channels", "encoder", "trainer", "llama", "frozen", "checkpointed")


def predictions(lines, folder):
    lines += ["", "## Peaks predicted from captures, `plimsoll predict --json -- python SHAPE.py`, and measured by `plimsoll run`", "",
              "| script | measured MiB | predicted MiB | error | capture and prediction, s |", "|---|---|---|---|---|"]
    with ThreadPoolExecutor(5) as pool:
        for line in pool.map(lambda name: predicted(name, folder), SHAPES):
            lines.append(line)


def predicted(name, folder):
    """The table's line of one script: run on the card, and predicted without it."""
    script = ["-m", "shapes.encoder"] if name == "encoder" else [os.path.join(HERE, "shapes", name + ".py")]
    report, path = os.path.join(folder, "shape-" + name), {"PYTHONPATH": HERE}
    code, _, err, _ = run(PLIMSOLL, "run", "--record", "off", "--report", report, "--", PYTHON, *script, env=path)
    notes = [json.load(open(p)) for p in glob.glob(os.path.join(report, "rank*.json"))]
    if code or not notes:
        return f"| {name} | failed: {err[-200:]!r} | | | |"
    measured = max(n["peak"]["allocated"] for n in notes)
    code, out, err, seconds = run(PLIMSOLL, "predict", "--gpu", "h200", "--json", "--", PYTHON, *script, env={**path, "CUDA_VISIBLE_DEVICES": ""})
    try:
        peak = json.loads(out.strip().splitlines()[-1] if out.count("\n{") else out)["peak"]["allocated"]
    except (ValueError, KeyError, IndexError):
        return f"| {name} | {measured / 2**20:.1f} | exit {code}: {err.strip()[-160:]!r} | | {seconds:.0f} |"
    return f"| {name} | {measured / 2**20:.1f} | {peak / 2**20:.1f} | {100 * (peak / measured - 1):+.2f} % | {seconds:.0f} |"


def main():
    import torch

    folder = os.path.join(os.path.dirname(os.path.abspath(OUT)), "run-check")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    lines = Table(OUT)
    lines.append(f"# plimsoll run on {torch.cuda.get_device_name()}, PyTorch {torch.__version__}, {time.strftime('%Y-%m-%d')}")
    parts = {"fitting": fitting, "healthy": healthy, "sick": sick, "overhead": overhead, "predictions": predictions}
    for name in sys.argv[3:] or parts:
        parts[name](lines, folder)
    for big in glob.glob(os.path.join(folder, "*", "*.pickle")):
        os.remove(big)
    print("\n".join(lines))


main()
