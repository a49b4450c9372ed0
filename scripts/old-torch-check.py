"""Runs the probe's scripts through plimsoll under one PyTorch and prints a row of the table: old-torch-check.py PLIMSOLL (in the Python to check).

Each cell is "yes", or what went wrong. Run from the repository's root.
"""
import json
import os
import subprocess
import sys
import tempfile

import torch

PLIMSOLL = sys.argv[1]
FIT = os.path.join("internal", "cli", "testdata", "fit")
CAPTURE = os.path.join("internal", "script", "capture", "testdata")


def run(*args):
    done = subprocess.run([PLIMSOLL, *args], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def numbers(out):
    return [x for row in json.loads(out.strip().splitlines()[-1]) for x in row]


def same(script, flags, sign, tolerance):
    path = os.path.join(FIT, script)
    code, out, err = run("run", "--record", "off", "--", sys.executable, path)
    if code:
        return f"{script} alone ends with {code}: {err.strip().splitlines()[-1:]}"
    code, changed, err = run("run", "--fit", *flags, "--", sys.executable, path)
    if code or sign not in err:
        return f"{script} ends with {code}: {err.strip().splitlines()[-1:]}"
    far = max(abs(a - b) for a, b in zip(numbers(out), numbers(changed)))
    return "" if far <= tolerance else f"{script} is off by {far:g}"


def observed():
    with tempfile.TemporaryDirectory() as report:
        code, _, err = run("run", "--report", report, "--", sys.executable, os.path.join(FIT, "plain.py"))
        notes = [f for f in os.listdir(report) if f.startswith("rank0-") and f.endswith(".json")]
        if code or not notes:
            return f"ends with {code}: {err.strip()[-200:]}"
        with open(os.path.join(report, notes[0])) as f:
            said = json.load(f)
    return "" if said["step"] == 20 and not said["problems"] else f"{said['step']} steps, {said['problems']}"


def recorder():
    with tempfile.TemporaryDirectory() as report:
        done = subprocess.run([sys.executable, os.path.join("internal", "probe", "testdata", "pretended_cuda.py"), report], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": os.path.join("internal", "probe", "python")})
    if done.returncode:
        return done.stderr.strip().splitlines()[-1]
    said = json.loads(done.stdout.strip().splitlines()[-1])
    return "" if said["steps"] == 60 and said["snapshot"] and not said["problems"] and said["oom"]["phase"] == "forward" else done.stdout


def captured(script, want):
    with tempfile.TemporaryDirectory() as folder:
        code, _, err = run("predict", "--memory", "80GiB", "--capture", folder, "--", sys.executable, os.path.join(CAPTURE, script))
        if code == 4 and "a capture needs PyTorch" in err:
            return "refused in words"
        if code:
            return f"{script}: {err.strip().splitlines()[-1][-200:]}"
        with open(os.path.join(folder, "job.json")) as f:
            job = json.load(f)
    return "" if all(job.get(k) == v for k, v in want.items()) else f"{script}: {job}"


def cell(*problems):
    said = next((p for p in problems if p), "yes").replace("|", "/").replace("\n", " ")
    print(torch.__version__, said, file=sys.stderr, flush=True)
    return said


split, sign = ["--split", "4"], "seen in effect: "
scaled = hasattr(torch.amp, "GradScaler")  # amp.py asks for it; since 2.3
print("| " + " | ".join([
    torch.__version__.split("+")[0],
    cell(observed(), recorder()),
    cell(*(same(s, split, sign, 1e-6) for s in ("plain.py", "accumulate.py", "scheduler.py", "clip.py")), same("amp.py", split, sign, 2e-3) if scaled else "yes, without amp.py"),
    cell(same("blocks.py", ["--checkpoint"], sign + "checkpointing of 3 blocks", 1e-7)),
    cell(same("batchnorm.py", split, "micro-batches left alone", 0)),
    cell(captured("toplevel.py", {"batch": 16, "optimizer": "adamw"}),
         captured("checkpointed.py", {"batch": 6, "checkpointing": True, "checkpoint_modules": [f"regions.{i}" for i in range(5)]}),
         captured("classes.py", {"batch": 8, "autocast": "fp16", "optimizer": "sgdm", "accumulate": 4}),
         captured("vision.py", {"batch": 16, "autocast": "fp16", "channels_last": True})),
]) + " |", flush=True)
