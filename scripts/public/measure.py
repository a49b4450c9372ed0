"""Runs public scripts for a few steps on the card of this machine and writes down the peaks PyTorch counted: measure.py --sources FOLDER --results FILE [--within 200]

One process imports torch and forks one child a script, so that each costs its steps and not its imports (where a fork cannot use the card, each is an interpreter
of its own). A child ends some seconds after its first optimizer step.
"""
import argparse
import fcntl
import json
import os
import pty
import random
import runpy
import struct
import sys
import termios
import threading
import time

import data

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "accept"))
import standins  # noqa: E402


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--sources", required=True)
    p.add_argument("--results", required=True)
    p.add_argument("--list", default=os.path.join(HERE, "list.jsonl"))
    p.add_argument("--within", type=float, default=200, help="seconds after which no further script begins")
    p.add_argument("--at-once", type=int, default=4)
    p.add_argument("--steps", type=float, default=5, help="seconds after a script's first optimizer step")
    p.add_argument("--patience", type=float, default=30, help="seconds that a script has in all")
    p.add_argument("--only", default="")
    p.add_argument("--peaks", action="store_true", help="record the allocator's events, and write down what was allocated at the peak, by size and line")
    p.add_argument("--one", default="", help="run this row of the list in this process")
    o = p.parse_args()
    if o.one:
        return alone(json.loads(o.one), o)
    with open(o.list) as f:
        rows = [r for r in map(json.loads, f) if o.only in json.dumps(r)]
    random.Random(1).shuffle(rows)
    prepare(rows, o)
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # asking CUDA itself whether there is a card would keep forks from using it
    preload()
    o.fresh = not a_fork_has_the_card()
    begun, running, waiting = time.monotonic(), {}, list(rows)
    while running or waiting:
        over = time.monotonic() - begun > o.within
        while waiting and len(running) < o.at_once and not over:
            row = waiting.pop(0)
            running[start(row, o, len(waiting))] = row
        if over:
            waiting.clear()
        if not running:
            break
        pid, status = os.wait()
        row = running.pop(pid, None)
        if row is not None:
            write(row, pid, status, o)


def prepare(rows, o):
    """Made-up data, before anything runs."""
    for row in rows:
        folder = os.path.join(o.sources, row["repository"].rpartition("/")[2], row.get("folder", ""))
        try:
            data.make(row, folder)
        except Exception as problem:
            print("no data for", row["command"], repr(problem), file=sys.stderr)


def preload():
    """What most scripts import. Nothing here may touch the card: children could not use it."""
    import importlib

    for name in ("torch", "torch.utils.data", "torch.optim", "torch._dynamo", "numpy", "PIL.Image", "torchvision", "torchvision.models", "torchvision.datasets", "torchvision.transforms"):
        try:
            importlib.import_module(name)
        except ImportError:
            print("not here:", name, file=sys.stderr)
    module = sys.modules.get("torchvision.datasets.utils")
    if module is not None:  # made-up data has other check sums
        accept = lambda path, md5=None: os.path.isfile(path)
        for other in [m for n, m in sys.modules.items() if n.startswith("torchvision.datasets")]:
            if hasattr(other, "check_integrity"):
                other.check_integrity = accept


def result_file(pid, o):
    return f"{o.results}.{pid}"


def start(row, o, number):
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    if o.fresh:
        options = [f"--{k.replace('_', '-')}={getattr(o, k)}" for k in ("sources", "results", "steps", "patience")] + ["--peaks"] * o.peaks
        os.execv(sys.executable, [sys.executable, os.path.abspath(__file__), *options, "--one", json.dumps(row)])
    alone(row, o)


def alone(row, o):
    preload()
    try:
        child(row, o)
    except BaseException as problem:
        report(o, "failed", repr(problem)[:400])
    os._exit(0)


def a_fork_has_the_card():
    pid = os.fork()
    if pid == 0:
        try:
            import torch

            torch.zeros(1, device="cuda")
            os._exit(0)
        except BaseException as problem:
            print("no fork:", repr(problem)[:300], file=sys.stderr)
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0


def child(row, o):
    source = os.path.abspath(os.path.join(o.sources, row["repository"].rpartition("/")[2]))
    o.results = os.path.abspath(o.results)
    os.chdir(os.path.join(source, row.get("folder", "")))
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    os.dup2(theirs, 0)
    log = os.open(os.devnull, os.O_WRONLY)
    os.dup2(log, 1)
    os.environ.update(MPLBACKEND="Agg", WANDB_MODE="disabled", HF_HUB_OFFLINE="1")
    sys.path[:0] = [os.path.join(source, p) for p in row.get("path", [])]
    words = row["command"].split()
    sys.modules.pop("data", None)  # a script may have its own, and in a folder without __init__.py it is found last
    sys.path[:] = [p for p in sys.path if os.path.abspath(p) != HERE]
    watch(o)
    if o.peaks:
        import torch

        torch.cuda.memory._record_memory_history(max_entries=300_000, context="alloc", stacks="python")
    standins.install()
    try:
        if words[0] == "-m":
            sys.argv = words[1:]
            sys.path.insert(0, os.getcwd())
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = words
            sys.path.insert(0, os.path.dirname(os.path.abspath(words[0])))
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit:
        pass
    except BaseException as problem:
        import traceback

        report(o, "failed", "".join(traceback.format_exception(problem))[-500:])
        return
    report(o, "end")


seen = {"steps": 0, "evaluated": False, "done": False, "after": []}


def watch(o):
    """Count optimizer steps and evaluations; end some seconds after the first step."""
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    def later(seconds):
        timer = threading.Timer(seconds, lambda: (report(o, "limit"), os._exit(0)))
        timer.daemon = True
        timer.start()

    def after(optimizer, args, kwargs):
        seen["steps"] += 1
        if seen["steps"] <= 6:
            seen["after"].append(torch.cuda.max_memory_allocated())
        if seen["steps"] == 1:
            later(o.steps)

    register_optimizer_step_post_hook(after)
    train = torch.nn.Module.train

    def trained(module, mode=True):
        if not mode and seen["steps"]:
            seen["evaluated"] = True
        return train(module, mode)

    torch.nn.Module.train = trained
    later(o.patience)


def report(o, how, error=""):
    if seen["done"]:
        return
    seen["done"] = True
    import torch

    row = {"ended": how, "error": error, "steps": seen["steps"], "evaluated": seen["evaluated"], "after_steps": seen["after"]}
    if torch.cuda.is_initialized():
        row.update(allocated=torch.cuda.max_memory_allocated(), reserved=torch.cuda.max_memory_reserved(), benchmark=torch.backends.cudnn.benchmark)
        if o.peaks:
            row["peak"] = at_peak(torch.cuda.memory._snapshot()["device_traces"][0])
    with open(result_file(os.getpid(), o), "w") as f:
        json.dump(row, f)


def levels(events):
    """The bytes that are allocated after each event, and what is allocated by address."""
    live, level = {}, 0
    for e in events:
        if e["action"] == "alloc":
            live[e["addr"]] = e
            level += e["size"]
        elif e["action"] == "free_completed" and e["addr"] in live:
            level -= live.pop(e["addr"])["size"]
        yield level, live


def at_peak(events):
    """What was allocated when most was, of a history that is complete: [bytes of one, how many, where], most bytes first."""
    highest, end = max(((level, i) for i, (level, _) in enumerate(levels(events))), default=(0, 0))
    *_, (_, live) = levels(events[: end + 1]) if events else [(0, {})]
    found = {}
    for e in live.values():
        frames = [f"{os.path.basename(f['filename'])}:{f['line']} {f['name']}" for f in e.get("frames") or []]
        key = e["size"], " < ".join(frames[:4])
        found[key] = found.get(key, 0) + 1
    most = sorted(found.items(), key=lambda i: -i[0][0] * i[1])
    return {"events": len(events), "highest": highest, "held": [[size, count, where[:300]] for (size, where), count in most[:40]]}


def write(row, pid, status, o):
    result = {"repository": row["repository"], "command": (row.get("folder", "") + " " + row["command"]).strip()}
    try:
        with open(result_file(pid, o)) as f:
            result.update(json.load(f))
        os.remove(result_file(pid, o))
    except (OSError, ValueError):
        result.update(ended="lost", error=f"status {status}", steps=0)
    import torch

    with open(o.results, "a") as f:
        f.write(json.dumps({**result, "torch": torch.__version__}) + "\n")


if __name__ == "__main__":
    main()
