"""Compares new predictions with what a card measured once: compare.py RESULTS.jsonl [DOCUMENT] [--torch 2.11]

RESULTS are run.py's. DOCUMENT is docs/measurements/public-scripts.md: its tables have the measured peaks, some also what was reserved, and shorten the commands. Of several measurements
of a command the last counts. Where the reserved bytes are not in the document, the bound is held against the peak, which is the weaker test; the table says which.
"""
import argparse
import os
import re

import table

HERE = os.path.dirname(os.path.abspath(__file__))
SHOWN, LEAST_SHOWN = 64, 48  # characters of a command that a table has; some tables with the repository before it have fewer
ROUNDED = 0.06  # MiB: the document has one decimal


def main():
    p = argparse.ArgumentParser()
    p.add_argument("results")
    p.add_argument("document", nargs="?", default=os.path.join(HERE, "..", "..", "docs", "measurements", "public-scripts.md"))
    p.add_argument("--torch", default="2.11")
    o = p.parse_args()
    rows = {(r["repository"], r["command"]): r for r in table.lines(o.results) if r["torch"].startswith(o.torch) and r["answered"]}
    with open(o.document) as f:
        measured = list(rows_of(f))
    found = []
    for r in rows.values():
        same = [m for m in measured if names(m["script"], r)]
        if same and not any(names(m["script"], other) for m in same for other in rows.values() if other is not r):  # two commands that are shortened alike cannot be told apart
            found.append(Compared(r, same))
    print(summary(found))
    print("| script | predicted MiB | measured MiB | difference | kind | bound MiB | reserved MiB | bound holds |")
    print("|---|---|---|---|---|---|---|---|")
    for c in sorted(found, key=lambda c: (c.kind, abs(c.off))):
        print(c.line())


def rows_of(lines):
    """The rows of the document's tables that have a measured peak, as dictionaries."""
    head = None
    for line in lines:
        cells = [c.strip() for c in line.strip().strip("|").split("|")] if line.startswith("|") else None
        if cells is None or head is None:
            head = cells
        elif "measured MiB" in head and set(cells[0]) != {"-"}:
            yield dict(zip(head, cells))


def names(script, r):
    """Whether a table's first cell is this command. Cells without a repository are of rows whose command tells them apart, but for `main.py`, which is pytorch-cifar's."""
    last = r["repository"].rpartition("/")[2]
    with_repository = re.fullmatch(r"(\S+) `(.*)`", script)
    if with_repository:
        shown = with_repository[2].strip()
        return last == with_repository[1] and r["command"][: max(LEAST_SHOWN, len(shown))].strip() == shown
    return r["command"][:SHOWN].strip() == script and (script != "main.py" or last == "pytorch-cifar")


class Compared:
    def __init__(self, r, same):
        self.r = r
        self.predicted, self.bound = r["allocated"] / 2**20, r["safe"] / 2**20
        self.measured = float(same[-1]["measured MiB"])
        self.reserved = next((float(m["reserved MiB"]) for m in reversed(same) if m.get("reserved MiB")), None)
        self.off = 100 * (self.predicted / self.measured - 1)
        trials = any(m.get("kind") == "trials" for m in same)
        self.kind = "trials" if trials else "range" if r["range"] else "at least" if r.get("at_least") and self.off < -1 else "exact"
        self.inside = bool(r["range"]) and r["range"]["low"] / 2**20 - ROUNDED <= self.measured <= r["range"]["high"] / 2**20 + ROUNDED
        self.holds = self.bound >= (self.reserved or self.measured)

    def line(self):
        name = f"{self.r['repository'].rpartition('/')[2]} `{self.r['command'][:SHOWN].strip()}`"
        reserved = f"{self.reserved:.0f}" if self.reserved else ""
        return f"| {name} | {self.predicted:.1f} | {self.measured:.1f} | {self.off:+.2f} % | {self.kind} | {self.bound:.0f} | {reserved} | {'yes' if self.holds else 'no'} |"


def summary(found):
    exact, ranges, known = [c for c in found if c.kind == "exact"], [c for c in found if c.kind == "range"], [c for c in found if c.reserved]
    return (f"{len(found)} compared. Exact ones: {sum(abs(c.off) <= 1 for c in exact)} of {len(exact)} within 1 %. Ranges: {sum(c.inside for c in ranges)} of {len(ranges)} hold the truth. "
            f"The bound (`safe`) is at least what was reserved in {sum(c.holds for c in known)} of {len(known)}, and at least the measured peak in {sum(c.holds for c in found)} of {len(found)}.\n")


if __name__ == "__main__":
    main()
