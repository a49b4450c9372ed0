"""Predicts public scripts, unmodified: run.py --python PYTHON --plimsoll BINARY [--sources FOLDER] [--only WORD] > results.jsonl

list.jsonl names repository, commit, folder and command. Sources are fetched, not kept here; where FOLDER has them already (by the repository's last name) they are
taken from there. Data is made up (data.py). One line a script: answered, in how many seconds, how.
"""
import argparse
import contextlib
import fcntl
import json
import os
import pty
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
    for name in ("python", "plimsoll", "sources", "only", "path", "before"):
        p.add_argument("--" + name, default="")
    p.add_argument("--follow", default="60s", help="the time limit of an answer")
    p.add_argument("--patience", type=int, default=400, help="seconds after which a script counts as not answered")
    p.add_argument("--every", type=int, default=1, help="take only each so manieth script")
    p.add_argument("--skip", type=int, default=0)
    o = p.parse_args()
    with open(os.path.join(HERE, "list.jsonl")) as f:
        rows = [json.loads(line) for line in f]
    for row in [r for r in rows if o.only in json.dumps(r)][o.skip::o.every]:
        print(json.dumps(one(row, o)), flush=True)


def one(row, o):
    source = fetched(row, o.sources)
    folder = os.path.join(source, row.get("folder", ""))
    for kind, to in row.get("data", {}).items():
        made = os.path.join(folder, to, ".made-" + kind)
        if not os.path.exists(made):
            data.kinds[kind](os.path.join(folder, to))
            open(made, "w").close()
    for to in row.get("folders", []):
        os.makedirs(os.path.join(folder, to), exist_ok=True)
    path = os.pathsep.join(filter(None, [os.path.join(HERE, "accept"), o.path, *(os.path.join(source, p) for p in row.get("path", []))]))
    command = [*shlex.split(o.before), o.plimsoll, "predict", "--json", "--gpu", "h200", "--follow", o.follow, "--", o.python, *row["command"].split()]
    env = {**os.environ, "PYTHONPATH": path, "MPLBACKEND": "Agg", "WANDB_MODE": "disabled", "PYTHONDONTWRITEBYTECODE": ""}
    begun = time.monotonic()
    try:
        with terminal() as stdin:
            done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=o.patience, stdin=stdin)
        out, err, code = done.stdout, done.stderr, done.returncode
    except subprocess.TimeoutExpired:
        out, err, code = "", f"no answer in {o.patience} seconds", 124
    result = {"repository": row["repository"], "command": row.get("folder", "") + " " + row["command"], "seconds": round(time.monotonic() - begun), "code": code}
    try:
        r = json.loads(out)
        result.update(answered=True, allocated=r["peak"]["allocated"], reserved=r["peak"]["reserved"], phase=r["phase"], step=r["step"], range=r.get("range"),
                      followed=any("every operator" in a for a in r.get("assumptions") or []), assumptions=[a for a in r.get("assumptions") or [] if "followed" in a or "not captured" in a])
    except ValueError:
        result.update(answered=False, error=err[-600:])
    return result


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
    if sources:
        return os.path.join(sources, row["repository"].rpartition("/")[2])
    to = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "plimsoll", "scripts", row["repository"].replace("/", "+"))
    if not os.path.exists(to):
        subprocess.run(["git", "clone", "--quiet", "--filter=blob:none", f"https://github.com/{row['repository']}", to], check=True)
        subprocess.run(["git", "-C", to, "checkout", "--quiet", row["commit"]], check=True)
    return to


if __name__ == "__main__":
    sys.exit(main())
