"""Compares whole-run predictions with the rows that PEFT publishes of its method comparison (Llama-3.2-3B on MetaMathQA, an L40S): compare.py ROWS PLIMSOLL CONFIG

A row gives the mean and the 99th percentile of torch.cuda.memory_reserved() after each of 5,000 steps, and max_memory_reserved() of the process
(https://github.com/huggingface/peft/blob/5d602fdbff04/method_comparison/MetaMathQA/run.py#L297, utils.py#L670). The loop pads batches, gives the model's outputs
a name of their own and empties the cache every 10 steps; the base is read with device_map
(https://github.com/huggingface/peft/blob/013424400cdc/method_comparison/MetaMathQA/utils.py, get_base_model); rows before 2025-11-13 every step
(https://github.com/huggingface/peft/commit/90d3fc05d). Lengths are not published: lengths.py finds one common set of them from two rows of plain LoRA of rank 32 (PyTorch 2.13 and 2.9, both of 2026).
"""
import json
import subprocess
import sys
import tempfile

import lengths

rows_file, plimsoll, config = sys.argv[1:4]
LOOP = {"task": "causal-lm", "batch": 4, "param_dtype": "bf16", "optimizer": "adamw", "loop": "script", "use_cache": True, "load": "device_map"}
GRID = [8, 64, *range(96, 769, 16)]
START = [190, 0.45, 0.5, 0.4, 0.3, 640]


def job_of(row):
    """The job of a row, or None."""
    method = row["experiment"].split("/")[0]
    if row["task"] != "MetaMathQA" or method not in ("lora", "full-finetuning") or row.get("status") != "success":
        return None
    job = {**LOOP, "config_file": config}
    if method == "lora":
        if row["optimizer"] != "AdamW" or any(w in row["experiment"] for w in ("bdlora", "mica")):
            return None  # part of the adapters is frozen, or they are block-diagonal
        job.update(lora_rank=row["r"], lora_targets=row["targets"])
        if row.get("dora"):
            job["dora"] = True
        if row.get("dropout"):
            job["lora_dropout"] = row["dropout"]
    return job


def ask(args, text=None):
    done = subprocess.run([plimsoll, "predict", "--json", "--gpu", "l40s", *args], input=text, capture_output=True, text=True)
    out = [json.loads(l) for l in done.stdout.splitlines()]
    for r in out:
        if r.get("error"):
            sys.exit(r["error"])
    if not out:
        sys.exit(done.stderr)
    return out


def release(row):
    return ".".join(row["torch"].split("+")[0].split(".")[:2])


def empty_every(row):
    return 1 if row["date"] < "2025-11-13" else 10


def published(row):
    return row["reserved_avg"], row["reserved_p99"], row["reserved_max"]


def curve(row, job):
    text = "".join(json.dumps({**job, "attention_mask": "padded", "seq": n, "id": str(n)}) + "\n" for n in GRID)
    return lengths.Curve(GRID, [r["peak"]["reserved"] for r in ask(["--jobs", "-", "--torch", release(row)], text)])


def whole_run(row, job, file):
    """Mean, 99th percentile and maximum of reserved bytes over the run of a row."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump(job, f)
        f.flush()
        r = ask(["--job", f.name, "--lengths", file, "--sampler", "sequential", "--no-remedies", "--torch", release(row), "--empty-cache-every", str(empty_every(row))])[0]
    if row.get("trainable") not in (None, r["trainable"]):
        sys.exit(f"{row['experiment']}: {r['trainable']} trainable parameters, {row['trainable']} published")
    return r["run"]["mean_reserved"], r["run"]["p99_reserved"], r["run"]["max_reserved"]


def common(anchors, file):
    """Finds the lengths and writes them; once more after the whole run has told how far the sketch is off."""
    curves = [(curve(*a), empty_every(a[0])) for a in anchors]
    targets, start = [published(r) for r, _ in anchors], START
    for again in (True, False):
        found, start = lengths.fit(curves, targets, start)
        with open(file, "w") as f:
            f.writelines(f"{n}\n" for n in found)
        if again:
            played = [whole_run(*a, file) for a in anchors]
            targets = [tuple(t * lengths.sketch(found[:: lengths.BATCH], *c)[i] / p[i] for i, t in enumerate(published(a[0]))) for a, c, p in zip(anchors, curves, played)]
    print(f"one common set of {len(found):,} lengths: median {sorted(found)[len(found) // 2]}, mean {sum(found) / len(found):.1f}, longest {max(found)}; {' '.join(f'{n:.3g}' for n in start)}\n")


def main():
    rows = [(r, job_of(r)) for r in map(json.loads, open(rows_file))]
    rows = sorted(((r, j) for r, j in rows if j is not None), key=lambda x: (x[0]["torch"], x[0]["experiment"], x[0]["date"]))
    plain = [x for x in rows if x[0]["experiment"].endswith("rank32")]
    anchors = [plain[0], plain[-1]]
    file = sys.argv[4] if len(sys.argv) > 4 else tempfile.mkstemp(suffix=".txt")[1]
    if len(sys.argv) <= 4:
        common(anchors, file)
    print("| row | PyTorch | date | mean, GB | predicted | | 99th percentile | predicted | | maximum | predicted | |\n|---|---|---|---|---|---|---|---|---|---|---|---|")
    errors, known = [[], [], []], {}
    for r, j in rows:
        key = json.dumps([j, release(r), empty_every(r)], sort_keys=True)
        if key not in known:
            known[key] = whole_run(r, j, file)
        cells = []
        for i, (p, t) in enumerate(zip(known[key], published(r))):
            off = 100 * (p / t - 1)
            if not any(r is a for a, _ in anchors):
                errors[i].append(abs(off))
            cells.append(f"{t / 1e9:.2f} | {p / 1e9:.2f} | {off:+.2f} %")
        mark = " (gives the lengths)" if any(r is a for a, _ in anchors) else ""
        print(f"| {r['experiment'].replace('llama-3.2-3B-', '')}{mark} | {r['torch'].split('+')[0]} | {r['date']} | {' | '.join(cells)} |", flush=True)
    print()
    for name, all in zip(("mean", "99th percentile", "maximum"), errors):
        all.sort()
        print(f"{name}: {len(all)} rows beside the two that give the lengths, {sum(e <= 2 for e in all)} within 2 %, median {all[len(all) // 2]:.2f} %, worst {all[-1]:.2f} %")


main()
