"""Predicts what sweep.py read: predict.py FOLDER PLIMSOLL OUT. One line a model type: answered or why not."""
import glob
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

folder, plimsoll, out = sys.argv[1:]


def one(base):
    kind = os.path.basename(base)
    if os.path.exists(base + ".failure"):
        return {"type": kind, "read": False, "why": open(base + ".failure").read()[:300]}
    if not os.path.exists(base + ".job.json"):
        return {"type": kind, "read": False, "why": "stopped"}
    job = json.load(open(base + ".job.json"))
    task = job.pop("task")
    job.pop("config")
    job.update(source="graph", graph=kind + ".json.gz")
    with open(base + ".graph.json", "w") as f:
        json.dump(job, f)
    try:
        done = subprocess.run([plimsoll, "predict", "--json", "--gpu", "h200", "--job", base + ".graph.json"], capture_output=True, text=True, timeout=60)
        r = json.loads(done.stdout)
        return {"type": kind, "read": True, "task": task, "answered": True, "peak": r["peak"]["allocated"], "params": r["params"], "unknown": r.get("unknown_operators")}
    except Exception as problem:
        return {"type": kind, "read": True, "task": task, "answered": False, "why": (getattr(locals().get("done"), "stderr", "") or repr(problem))[-300:]}


bases = sorted({p.removesuffix(e) for e in (".failure", ".json.gz") for p in glob.glob(os.path.join(folder, "*" + e))})
with ThreadPoolExecutor(8) as pool, open(out, "w") as f:
    for r in pool.map(one, bases):
        f.write(json.dumps(r) + "\n")
