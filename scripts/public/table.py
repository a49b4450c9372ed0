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
    p.add_argument("--torch", default="2.11", help="releases whose predictions are compared, the first that has one")
    o = p.parse_args()
    rows = list({(r["torch"], r["repository"], r["command"]): r for r in lines(o.results)}.values())  # the last word on each counts
    print(answered(rows))
    if o.measured:
        wanted = o.torch.split(",")
        chosen = {}
        for r in rows:  # of several releases the first that is named
            rank = next((i for i, v in enumerate(wanted) if r["torch"].startswith(v)), None)
            key = r["repository"], r["command"]
            if rank is not None and r["answered"] and not r.get("earlier") and (key not in chosen or rank < chosen[key][0]):
                chosen[key] = rank, r
        print(compared({key: r for key, (_, r) in chosen.items()}, lines(o.measured)))


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
        missing = "; ".join(f"{r['command'][:58]}: {why(r)}" for r in mine if not r["answered"])
        out.append(f"| {torch} | {len(mine)} | {len(fine)} | {statistics.median(cpu):.0f}, {max(cpu):.0f} | {len(broken)} | {missing or 'none'} |")
    return "\n".join(out) + "\n"


def why(row):
    """The last sentence of an error, without the paths of the machine."""
    text = row.get("error", "").strip().splitlines()[-1:] or [f"code {row['code']}"]
    text = re.sub(r"/[^\s:]*/", "", text[0].rpartition("plimsoll: ")[2])
    return text.replace("|", "/")[:160]


def compared(predicted, measured):
    """Peaks that PyTorch counted on the card against the predicted ones. A script that failed on the card, or did not get to the phase of the predicted peak, does not count."""
    found, apart = [], []
    for m in {(m["repository"], m["command"]): m for m in measured}.values():
        r = predicted.get((m["repository"], m["command"]))
        if r is None or not m.get("allocated"):
            continue
        if m["ended"] != "end" and (m["steps"] < 2 or r["phase"] == "eval" and not m["evaluated"]):
            apart.append(m["command"])
            continue
        found.append(Row(m, r))
    exact = [f for f in found if f.kind == "exact"]
    out = [f"{len(found)} compared. Exact ones: {sum(abs(f.off) <= 1 for f in exact)} of {len(exact)} within 1 %. Ranges: {sum(f.inside for f in found if f.kind == 'range')} of {sum(f.kind == 'range' for f in found)} hold the truth. "
           f"The bound (`safe`) is at least the reserved bytes in {sum(f.holds for f in found)} of {len(found)}.", "",
           "| script | PyTorch of the prediction | predicted MiB | measured MiB | difference | kind | bound holds |", "|---|---|---|---|---|---|---|"]
    for f in sorted(found, key=lambda f: (f.kind, abs(f.off))):
        out.append(f"| {f.m['command'][:64]} | {f.r['torch']} | {f.r['allocated'] / 2**20:.1f} | {f.m['allocated'] / 2**20:.1f} | {f.off:+.2f} % | {f.kind} | {'yes' if f.holds else 'no'} |")
    if apart:
        out += ["", "Not compared, for on the card they failed or ended before the phase of the predicted peak: " + "; ".join(apart) + "."]
    return "\n".join(out) + "\n"


class Row:
    def __init__(self, m, r):
        self.m, self.r = m, r
        self.off = 100 * (r["allocated"] / m["allocated"] - 1)
        self.kind = "trials" if m.get("benchmark") else "range" if r["range"] else "at least" if r.get("at_least") and self.off < -1 else "exact"
        self.inside = bool(r["range"]) and r["range"]["low"] <= m["allocated"] <= r["range"]["high"]
        self.holds = r["safe"] >= m["reserved"] or bool(r.get("at_least"))  # what was not followed to its end is given no bound


if __name__ == "__main__":
    main()
