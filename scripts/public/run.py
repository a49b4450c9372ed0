"""Predicts public scripts, unmodified: run.py --python PYTHON --plimsoll BINARY --results FILE [--sources FOLDER] [--only WORD]

list.jsonl names repository, commit, folder and command. Sources are fetched, not kept here; where FOLDER has them already (as owner+name, or by the
repository's last name) they are taken from there. Data is made up (data.py). One line a script goes to FILE: answered, after how many seconds of CPU, how. Scripts that FILE already has
under the same PyTorch are left out, so that a run can be ended and begun again; table.py makes the tables of docs/measurements/public-scripts.md from such files.
"""
import argparse
import contextlib
import datetime
import fcntl
import json
import os
import pty
import random
import resource
import shlex
import struct
import subprocess
import sys
import termios
import time

import data

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    p = argparse.ArgumentParser()
    for name in ("python", "plimsoll", "sources", "only", "path", "before", "torch"):
        p.add_argument("--" + name, default="")
    p.add_argument("--results", default="public-scripts.jsonl")
    p.add_argument("--follow", default="60s", help="the time limit of an answer; rows of the list may have their own")
    p.add_argument("--patience", type=int, default=400, help="seconds after which a script counts as not answered")
    p.add_argument("--most", type=int, default=1000, help="end after so many scripts")
    p.add_argument("--warm", action="store_true", help="PYTHON is a client of warm.py: count what its workers spend")
    p.add_argument("--within", type=float, default=0, help="seconds after which no further script begins; 0: never")
    p.add_argument("--list", default=os.path.join(HERE, "list.jsonl"))
    p.add_argument("--part", default="0/1", help="1/4 takes the second of every four scripts")
    p.add_argument("--seed", type=int, default=0, help="mix the repositories in another order; -1: as listed")
    o = p.parse_args()
    begun = time.monotonic()
    o.torch = o.torch or subprocess.run([o.python, "-c", "from importlib.metadata import version; print(version('torch'))"], check=True, capture_output=True, text=True).stdout.strip()
    with open(o.list) as f:
        rows = [json.loads(line) for line in f]
    if o.seed >= 0:
        random.Random(o.seed).shuffle(rows)
    known = done(o.results, o.torch)
    part, parts = map(int, o.part.split("/"))
    for row in [r for r in rows[part::parts] if o.only in json.dumps(r) and (r["repository"], spelled(r)) not in known][: o.most]:
        if o.within and time.monotonic() - begun > o.within:
            break
        try:
            result = one(row, o)
        except Exception as problem:  # of this script's, not of the prediction: it is told apart
            result = {"repository": row["repository"], "command": spelled(row), "answered": False, "outside": repr(problem)[:400]}
        result.update(torch=o.torch, date=datetime.date.today().isoformat())
        with open(o.results, "a") as f:
            f.write(json.dumps(result) + "\n")


def done(results, torch):
    """What a file has of this release."""
    try:
        with open(results) as f:
            return {(r["repository"], r["command"]) for r in map(json.loads, f) if r["torch"] == torch}
    except OSError:
        return set()


def spelled(row):
    return (row.get("folder", "") + " " + row["command"]).strip()


def one(row, o):
    source = fetched(row, o.sources)
    folder = os.path.join(source, row.get("folder", ""))
    data.make(row, folder)
    path = os.pathsep.join(filter(None, [os.path.join(HERE, "accept"), *(os.path.join(source, p) for p in row.get("path", [])), o.path]))
    command = [*shlex.split(o.before), o.plimsoll, "predict", "--json", "--gpu", "h200", "--follow", row.get("follow", o.follow), "--", o.python, *row["command"].split()]
    env = {**os.environ, "PYTHONPATH": path, "MPLBACKEND": "Agg", "WANDB_MODE": "disabled", "HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "", "OMP_NUM_THREADS": "1"}
    if o.warm:
        env["WARM_SPENT"] = o.results + ".spent"
    begun, before = time.monotonic(), spent(env)
    try:
        with terminal() as stdin:
            ended = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=o.patience, stdin=stdin)
        out, err, code = ended.stdout, ended.stderr, ended.returncode
    except subprocess.TimeoutExpired:
        out, err, code = "", f"no answer in {o.patience} seconds", 124
    result = {"repository": row["repository"], "command": spelled(row), "seconds": round(time.monotonic() - begun), "cpu": round(spent(env) - before, 1), "code": code}
    try:
        r = json.loads(out)
        result.update(answered=True, allocated=r["peak"]["allocated"], reserved=r["peak"]["reserved"], safe=r["safe"], phase=r["phase"], phases=r["phases"], range=r.get("range"), trials=r.get("trials"), at_least=r.get("at_least"),
                      followed=any("every operator" in a for a in r.get("assumptions") or []), assumptions=[a[:300] for a in r.get("assumptions") or []])
    except ValueError:
        result.update(answered=False, error=err[-900:])
    return result


def spent(env):
    """Seconds of CPU that ended children took, those of warm.py's workers with them."""
    used, elsewhere = resource.getrusage(resource.RUSAGE_CHILDREN), 0.0
    if os.path.exists(env.get("WARM_SPENT", "")):
        with open(env["WARM_SPENT"]) as f:
            elsewhere = sum(map(float, f))
    return used.ru_utime + used.ru_stime + elsewhere


@contextlib.contextmanager
def terminal():
    """A terminal of 80 columns for standard input: some scripts ask how wide it is."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    try:
        yield theirs
    finally:
        os.close(ours)
        os.close(theirs)


def fetched(row, sources):
    """The folder of a row's repository; a row without a commit is a module of an installed package, and runs in a folder of its own."""
    if sources:
        whole, last = (os.path.join(sources, name) for name in (row["repository"].replace("/", "+"), row["repository"].rpartition("/")[2]))
        to = whole if os.path.exists(whole) else last
        os.makedirs(to, exist_ok=True)
        return to
    to = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "plimsoll", "scripts", row["repository"].replace("/", "+"))
    if os.path.exists(to):
        return to
    if "commit" not in row:
        os.makedirs(to)
        return to
    subprocess.run(["git", "clone", "--quiet", "--filter=blob:none", f"https://github.com/{row['repository']}", to], check=True)
    subprocess.run(["git", "-C", to, "checkout", "--quiet", row["commit"]], check=True)
    return to


if __name__ == "__main__":
    sys.exit(main())
