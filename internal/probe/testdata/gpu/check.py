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


def sick(lines, folder):
    lines += ["", "## Sick programs, each `plimsoll run --report DIR -- python PROGRAM.py`", "",
              "| program | exit | first finding | confidence | place | right | seconds |", "|---|---|---|---|---|---|---|"]
    for name, wanted in SICK.items():
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
        lines.append(f"| {name} | {code} | {finding['id']} | {finding.get('confidence', 0):.2f} | {where} | "
                     f"{'yes' if finding['id'] in wanted else 'NO, want ' + '/'.join(wanted)} | {seconds:.0f} |")


def overhead(lines, folder):
    lines += ["", "## What recording costs: GPT-2 small under bf16 autocast, `gpt2_time.py`, mean over the steps after 60 of warm-up", "",
              "| step | mode | mean ms | median ms | against none |", "|---|---|---|---|---|"]
    for label, args in (("launch-bound, 8 × 512", ("8", "512", "240")), ("GPU-bound, 32 × 1024", ("32", "1024", "110"))):
        base = None
        for mode in ("none", "off", "light", "auto", "stacks"):
            command = [PYTHON, os.path.join(HERE, "gpt2_time.py"), *args]
            if mode != "none":
                command = [PLIMSOLL, "run", "--record", mode, "--", *command]
            _, out, err, _ = run(*command)
            found = re.search(r"mean_ms=([\d.]+) median_ms=([\d.]+)", out)
            if not found:
                lines.append(f"| {label} | {mode} | failed: {err[-200:]!r} | | |")
                continue
            mean, median = map(float, found.groups())
            base = base or mean
            lines.append(f"| {label} | {mode} | {mean:.2f} | {median:.2f} | {100 * (mean / base - 1):+.1f} % |")


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
    for name in SHAPES:
        script = ["-m", "shapes.encoder"] if name == "encoder" else [os.path.join(HERE, "shapes", name + ".py")]
        report, path = os.path.join(folder, "shape-" + name), {"PYTHONPATH": HERE}
        code, _, err, _ = run(PLIMSOLL, "run", "--record", "off", "--report", report, "--", PYTHON, *script, env=path)
        notes = [json.load(open(p)) for p in glob.glob(os.path.join(report, "rank*.json"))]
        if code or not notes:
            lines.append(f"| {name} | failed: {err[-200:]!r} | | | |")
            continue
        measured = max(n["peak"]["allocated"] for n in notes)
        code, out, err, seconds = run(PLIMSOLL, "predict", "--json", "--", PYTHON, *script, env={**path, "CUDA_VISIBLE_DEVICES": ""})
        try:
            predicted = json.loads(out.strip().splitlines()[-1] if out.count("\n{") else out)["peak"]["allocated"]
            lines.append(f"| {name} | {measured / 2**20:.1f} | {predicted / 2**20:.1f} | {100 * (predicted / measured - 1):+.2f} % | {seconds:.0f} |")
        except (ValueError, KeyError, IndexError):
            lines.append(f"| {name} | {measured / 2**20:.1f} | exit {code}: {err.strip()[-160:]!r} | | {seconds:.0f} |")


def main():
    import torch

    folder = os.path.join(os.path.dirname(os.path.abspath(OUT)), "run-check")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    lines = [f"# plimsoll run on {torch.cuda.get_device_name()}, PyTorch {torch.__version__}, {time.strftime('%Y-%m-%d')}"]
    parts = {"fitting": fitting, "healthy": healthy, "sick": sick, "overhead": overhead, "predictions": predictions}
    for name in sys.argv[3:] or parts:
        parts[name](lines, folder)
        with open(OUT, "w") as f:  # what is known so far, should the time run out
            f.write("\n".join(lines) + "\n")
    for big in glob.glob(os.path.join(folder, "*", "*.pickle")):
        os.remove(big)
    print("\n".join(lines))


main()
