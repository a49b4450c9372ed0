"""Holders as people read them, for plimsoll.holders() and plimsoll.watch_growth()."""
import os


def place(where):
    """train.py:31 main"""
    if not where:
        return ""
    line = f":{where['line']}" if where.get("line") else ""
    function = where.get("function", "")
    return os.path.basename(where["file"]) + line + (f" {function}" if function and function != "<module>" else "")


def named(h):
    return h["name"] + (f" in {place(h['in'])}" if h.get("in") else "")


def title(h):
    """A holder in a few words."""
    words = {
        "parameter": "parameters of {}", "gradient": "gradients of {}", "buffer": "buffers of {}", "optimizer": "optimizer state of {}",
        "saved": "saved for backward in the graph of {}", "input": "{}, an input of this step", "variable": "{}",
    }
    if h["role"] in words:
        return words[h["role"]].format(named(h))
    if h["role"] == "library":
        return "held only by " + (h.get("kind") or "C++ or a library")
    return h.get("kind") or "no name reaches it: temporaries, or C++"


def together(found):
    """One row for each title, largest first: operations and modules of one graph, and kinds of state, are added up."""
    rows = {}
    for h in found["holders"]:
        key = title(h)
        row = rows.setdefault(key, {**h, "bytes": 0, "count": 0})
        row["bytes"] += h["bytes"]
        row["count"] += h["count"]
    return sorted(rows.values(), key=lambda h: -h["bytes"])


def share(found):
    """The part of the allocated bytes that has a holder."""
    allocated = sum(d["allocated"] for d in found["devices"])
    return round(sum(d["named"] for d in found["devices"]) / allocated, 4) if allocated else 0.0


def size(n):
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if abs(n) >= scale:
            return f"{n / scale:.2f} {unit}"
    return f"{n} B"


class Holders(list):
    """Rows of holders, largest first; prints as a table. `found` is everything the walk said (schema plimsoll.holders/1)."""

    def __init__(self, found, rows):
        super().__init__(rows)
        self.found, self.share = found, share(found)

    def __repr__(self):
        lines = [f"{size(h['bytes']):>11}  {title(h)}" + (f" ({h['count']} tensors)" if h["count"] > 1 else "") + also(h) for h in self[:20]]
        walk = self.found["walk"]
        rest = "" if walk["complete"] else f"; the search ended early ({walk['stopped']})"
        total = sum(d["allocated"] for d in self.found["devices"])
        return "\n".join([*lines, f"{100 * self.share:.1f} % of {size(total)} have a name, found in {walk['seconds']:.2f} s{rest}"])

    _repr_pretty_ = lambda self, printer, cycle: printer.text(repr(self))


def also(h):
    return "; also held by " + ", ".join(named(a) for a in h["also"]) if h.get("also") else ""


class Growth:
    """What grew between two looks; prints as a table."""

    def __init__(self):
        self.grown = []

    def compare(self, before, after):
        old = {title(h): h for h in together(before)}
        for h in together(after):
            was = old.get(title(h), {"bytes": 0, "count": 0})
            if h["bytes"] > was["bytes"]:
                self.grown.append({**h, "bytes": h["bytes"] - was["bytes"], "count": h["count"] - was["count"]})
        self.grown.sort(key=lambda h: -h["bytes"])

    def __repr__(self):
        if not self.grown:
            return "nothing grew"
        return "\n".join(f"+{size(h['bytes']):>11}  {title(h)} ({h['count']:+d} tensors){also(h)}" for h in self.grown[:20])

    _repr_pretty_ = lambda self, printer, cycle: printer.text(repr(self))
