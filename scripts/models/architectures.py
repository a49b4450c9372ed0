"""Reads the measured architectures again: architectures.py TESTDATA [IDS]. Which probe read them is kept in TESTDATA/architectures/read-by, so that a run that was ended goes on."""
import gzip
import hashlib
import json
import os
import sys
import time

import sweep
from plimsoll import _models

READING = ("_models.py", "_inputs.py", "_fields.py", "_numbers.py", "_parts.py", "_sounds.py", "_pictures.py", "_forward.py", "_answers.py", "_shapes.py", "_layers.py")  # what decides how a graph looks, as internal/script/modelcode says


def probe():
    digest, folder = hashlib.sha256(), os.path.dirname(_models.__file__)
    for name in READING:
        digest.update(open(os.path.join(folder, name), "rb").read())
    return digest.hexdigest()[:16]


def read(row, out):
    try:
        text = _models.describe({k: v for k, v in row.items() if k != "measured"})
    except Exception as problem:
        print(row["id"], repr(problem)[:200], flush=True)
        return
    with open(out, "wb") as f:
        f.write(gzip.compress(text.encode(), 9, mtime=0))


def main():
    folder, wanted = sys.argv[1], sys.argv[2:]
    end = time.monotonic() + float(os.environ.get("ARCHITECTURES_SECONDS", "1e9"))
    sizes_of = _models.sizes_of
    _models.sizes_of = lambda request, symbols, corners=False: sizes_of(request, (), False)  # as measured: one size, one run
    sweep.warm()
    note, now = os.path.join(folder, "architectures", "read-by"), probe()
    known = dict(line.split() for line in open(note)) if os.path.exists(note) else {}
    left = 0
    for line in gzip.open(os.path.join(folder, "architectures.jsonl.gz"), "rt"):
        row = json.loads(line)
        out = os.path.join(folder, "architectures", row["id"] + ".json.gz")
        if row["id"] not in wanted if wanted else known.get(row["id"]) == now or not os.path.exists(out):
            continue
        if time.monotonic() > end:
            left += 1
            continue
        child = os.fork()
        if child == 0:
            read(row, out)
            os._exit(0)
        os.waitpid(child, 0)
        known[row["id"]] = now
        with open(note, "w") as f:
            f.writelines(f"{k} {v}\n" for k, v in sorted(known.items()))
    print(f"{left} left", file=sys.stderr)


main()
