"""Runs every program of the folder holders on a card, several at a time, each under its own cap, until its memory ends: `holders_on_gpu.py OUT [NAME...]`.

Writes OUT/holders.jsonl, one line a program, and OUT/holders.md, the table. With dist/plimsoll there, the join with the recording is told too.
"""
import concurrent.futures
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

here = os.path.dirname(os.path.abspath(__file__))
folder = os.path.join(here, "holders")
sys.path.insert(0, os.path.join(here, "..", "python"))
from plimsoll import _holdersfile  # noqa: E402
root = os.path.abspath(os.path.join(here, "..", "..", "..", ".."))
AT_ONCE, SECONDS = int(os.environ.get("HOLDERS_AT_ONCE", "8")), 90
GIB = 2**30
SMALL = 32 * 2**10  # recordings below this are kept in the folder HOLDERS_KEEP, with their holders


def run(name):
    report = tempfile.mkdtemp(prefix=f"holders-{name}-")
    try:
        return judge(name, report, *execute(name, report))
    except Exception as problem:
        return {"program": name, "problem": repr(problem)[:500]}
    finally:
        shutil.rmtree(report, ignore_errors=True)


def execute(name, report):
    path = [os.path.join(here, "..", "python"), folder, os.path.join(root, "dist", "site-packages"), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "PLIMSOLL_MODE": "observe", "PLIMSOLL_REPORT": report, "PLIMSOLL_RECORD": "stacks",
           "HOLDERS_DEVICE": "cuda", "TOKENIZERS_PARALLELISM": "false"}
    began = time.time()
    try:
        done = subprocess.run([sys.executable, os.path.join(folder, name + ".py")], env=env, capture_output=True, text=True, timeout=SECONDS)
        return done.stderr[-800:], time.time() - began
    except subprocess.TimeoutExpired:
        return "timed out", time.time() - began


def judge(name, report, errors, seconds):
    with open(os.path.join(folder, name + ".py")) as f:
        truth, holder = (f.readline().split(":", 1)[1].strip() for _ in range(2))
    row = {"program": name, "truth": truth, "want": holder, "seconds": round(seconds, 1)}
    files = glob.glob(os.path.join(report, "*" + _holdersfile.ENDING))
    if not files:
        return {**row, "problem": "nothing was written: " + errors}
    found = _holdersfile.read(files[0])
    recording = files[0].replace(_holdersfile.ENDING, ".pickle")
    device = (found["devices"] or [{"allocated": 0, "named": 0}])[0]
    role, _, want = holder.partition(" ")
    top = [h for h in found["holders"] if h["bytes"] * 20 >= found["holders"][0]["bytes"]]
    right = [h for h in top if h["role"] == role and want.strip() in h["name"]]
    with open(glob.glob(os.path.join(report, "rank*[0-9].json"))[0]) as f:
        notes = json.load(f)
    row.update(
        right=bool(right), problem=found.get("problem"), walk=found["walk"], allocated=device["allocated"], named=device["named"],
        shown=brief((right or top or [{}])[0]), top=[brief(h) for h in found["holders"][:6]], bytes=[os.path.getsize(files[0]), os.path.getsize(recording)],
        probe_problems=notes["problems"][:3], error=(notes["error"] or {}).get("message", "")[:200],
    )
    if os.environ.get("HOLDERS_KEEP") and os.path.getsize(recording) < SMALL:
        for path, ending in ((files[0], _holdersfile.ENDING), (recording, ".pickle")):
            shutil.copy(path, os.path.join(os.environ["HOLDERS_KEEP"], name + ending))
    binary = os.path.join(root, "dist", "plimsoll")
    if os.path.exists(binary):
        row["explained"] = explained(binary, recording)
    return row


def explained(binary, recording):
    done = subprocess.run([binary, "explain", "--json", recording], capture_output=True, text=True, timeout=SECONDS)
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        return {"problem": done.stderr[-300:]}
    device = max(answer["devices"], key=lambda d: d["peak"]["requested"])
    return {
        "share": (device.get("walk") or {}).get("share"), "holders": [{k: h.get(k) for k in ("name", "role", "bytes", "count", "growth_per_step", "tensors_per_step")}
                                                                    for h in device.get("holders", [])[:6]],
        "findings": [(f["id"], f["confidence"]) for f in answer["findings"][:3]],
    }


def brief(h):
    return {k: h[k] for k in ("role", "name", "in", "bytes", "count", "kind", "op", "module", "also", "type") if h.get(k)}


def table(rows):
    yield "| program | truth | printed | of allocated | with the recording | walk |"
    yield "|---|---|---|---|---|---|"
    for r in rows:
        if "walk" not in r:
            yield f"| {r['program']} | {r.get('truth', '')} | {r.get('problem', '')[:80]} | | | |".replace("\n", " ")
            continue
        s = r["shown"]
        where = s.get("in") or {}
        at = f" in {os.path.basename(where.get('file', ''))}:{where.get('line', '')} {where.get('function', '')}" if where else ""
        share = (r.get("explained") or {}).get("share")
        yield (f"| {r['program']}{'' if r['right'] else ' ✗'} | {r['truth']} | {s.get('role', '')} `{s.get('name', '')}`{at}: {s.get('bytes', 0) / GIB:.2f} GiB | "
               f"{100 * r['named'] / max(1, r['allocated']):.1f} % | {'' if share is None else f'{100 * share:.1f} %'} | {r['walk']['seconds']:.2f} s |")


if __name__ == "__main__":
    out = sys.argv[1]
    names = sys.argv[2:] or sorted(f[:-3] for f in os.listdir(folder) if f.endswith(".py") and f not in ("kit.py", "shelf.py"))
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool, open(os.path.join(out, "holders.jsonl"), "w") as f:
        rows = []
        for row in pool.map(run, names):
            rows.append(row)
            f.write(json.dumps(row) + "\n")
            f.flush()
    with open(os.path.join(out, "holders.md"), "w") as f:
        f.write("\n".join(table(rows)) + "\n")
    told = [r for r in rows if "walk" in r]
    print(f"{len(told)} of {len(rows)} looked into, {sum(r['right'] for r in told)} right, "
          f"{sum(r['named'] >= 0.95 * r['allocated'] for r in told)} with 95 % named by the walk, "
          f"{sum(((r.get('explained') or {}).get('share') or 0) >= 0.95 for r in told)} with the recording; "
          f"slowest walk {max((r['walk']['seconds'] for r in told), default=0)} s")
    for r in rows:
        if not r.get("right"):
            print(json.dumps(r)[:1200])
