"""Makes the tables of docs/measurements/public-scripts.md: table.py RESULTS.jsonl [MEASURED.jsonl]

RESULTS are run.py's. MEASURED are measure.py's, of the same commands on a card; they are compared with the predictions under --torch.
"""
import argparse
import json
import re
import statistics


def main():
    p = argparse.ArgumentParser()
    p.add_argument("results")
    p.add_argument("measured", nargs="?")
    p.add_argument("--torch", default="2.11")
    o = p.parse_args()
    rows = list({(r["torch"], r["repository"], r["command"]): r for r in lines(o.results)}.values())  # the last word on each counts
    print(answered(rows))
    if o.measured:
        print(compared({(r["repository"], r["command"]): r for r in rows if r["torch"].startswith(o.torch)}, lines(o.measured)))


def lines(path):
    with open(path) as f:
        return [json.loads(line) for line in f]


def answered(rows):
    out = ["| PyTorch | tried | answered | CPU seconds, median and most | internal errors | not answered |", "|---|---|---|---|---|---|"]
    for torch in sorted({r["torch"] for r in rows}, key=lambda v: [int(n) for n in re.findall(r"\d+", v)[:2]]):
        mine = [r for r in rows if r["torch"] == torch and "outside" not in r]
        fine = [r for r in mine if r["answered"]]
        cpu = [r["cpu"] for r in fine if r.get("cpu")] or [0]
        broken = [r for r in mine if "internal error" in r.get("error", "") or "panic" in r.get("error", "")]
        missing = "; ".join(f"{r['command']}: {why(r)}" for r in mine if not r["answered"])
        out.append(f"| {torch} | {len(mine)} | {len(fine)} | {statistics.median(cpu):.0f}, {max(cpu):.0f} | {len(broken)} | {missing or 'none'} |")
    return "\n".join(out) + "\n"


def why(row):
    """The last sentence of an error, without the paths of the machine."""
    text = row.get("error", "").strip().splitlines()[-1:] or [f"code {row['code']}"]
    text = re.sub(r"/[^\s:]*/", "", text[0].removeprefix("plimsoll: "))
    return text.replace("|", "/")[:160]


def compared(predicted, measured):
    """Peaks that PyTorch counted on the card against the predicted ones. A script whose card run did not get to the phase of the predicted peak does not count."""
    found, apart = [], []
    for m in measured:
        r = predicted.get((m["repository"], m["command"]))
        if r is None or not r.get("answered") or not m.get("allocated"):
            continue
        if not m["steps"] and not m.get("evaluated") or r["phase"] == "eval" and not m.get("evaluated"):
            apart.append(m["command"])
            continue
        high = r["range"]["high"] if r["range"] else r["allocated"]
        low = r["range"]["low"] if r["range"] else r["allocated"]
        found.append((m, r, 100 * (r["allocated"] / m["allocated"] - 1), bool(r["range"]), low <= m["allocated"] <= high, max(r["safe"], 0) >= m["reserved"]))
    exact = [f for f in found if not f[3]]
    near = [f for f in exact if abs(f[2]) <= 1]
    ranged = [f for f in found if f[3]]
    safe = [f for f in found if f[5]]
    out = [f"{len(found)} compared: {len(near)} of {len(exact)} exact ones within 1 %, {sum(f[4] for f in ranged)} of {len(ranged)} ranges hold the truth, "
           f"the bound (`safe`) is not below the reserved bytes in {len(safe)} of {len(found)}.", "", "| script | predicted MiB | measured MiB | difference | bound holds | steps |", "|---|---|---|---|---|---|"]
    for m, r, off, ranged, inside, holds in sorted(found, key=lambda f: abs(f[2])):
        shown = f"{off:+.2f} %" + (" (range, " + ("inside" if inside else "outside") + ")" if ranged else "")
        out.append(f"| {m['command'][:70]} | {r['allocated'] / 2**20:.1f} | {m['allocated'] / 2**20:.1f} | {shown} | {'yes' if holds else 'no'} | {m['steps']} |")
    if apart:
        out += ["", "Not compared, for the run on the card did not get as far as the prediction: " + "; ".join(apart) + "."]
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    main()
