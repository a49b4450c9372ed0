"""Compares predictions with the rows that PEFT publishes of its method comparison (Llama-3.2-3B on MetaMathQA, an L40S): compare.py ROWS PLIMSOLL CONFIG

What the rows do not say is how long the longest batch was: one number that all rows share. It is found from one row (the first of plain LoRA, rank 32) and used
for all others. The loop is that of method_comparison/MetaMathQA/run.py: padded batches, model outputs with a name of their own, use_cache as the model has it.
https://github.com/huggingface/peft/blob/026d1e0164165fcb4a2a98cd9b37af619745d8b3/method_comparison/MetaMathQA/run.py#L267
"""
import json
import subprocess
import sys

rows_file, plimsoll, config = sys.argv[1:4]
LOOP = {"task": "causal-lm", "batch": 4, "param_dtype": "bf16", "optimizer": "adamw", "loop": "script", "attention_mask": "padded", "use_cache": True}


def job_of(row):
    """The job of a row, or why it has none."""
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


def predicted(jobs, version):
    text = "".join(json.dumps({**j, "id": str(i)}) + "\n" for i, j in enumerate(jobs))
    done = subprocess.run([plimsoll, "predict", "--jobs", "-", "--json", "--gpu", "l40s", "--torch", version], input=text, capture_output=True, text=True)
    out = [json.loads(l) for l in done.stdout.splitlines()]
    for r in out:
        if r.get("error"):
            sys.exit(r["error"])
    return out


def release(row):
    return ".".join(row["torch"].split("+")[0].split(".")[:2])


def main():
    rows = [(r, job_of(r)) for r in map(json.loads, open(rows_file))]
    rows = [(r, j) for r, j in rows if j is not None]
    anchor = next(r for r in rows if r[0]["experiment"].endswith("rank32"))
    lengths = list(range(600, 769, 2))
    found = predicted([{**anchor[1], "seq": n} for n in lengths], release(anchor[0]))
    longest = min(lengths, key=lambda n: abs(found[lengths.index(n)]["peak"]["reserved"] - anchor[0]["reserved_max"]))
    print(f"longest batch: {longest} tokens, from {anchor[0]['experiment']} with PyTorch {anchor[0]['torch']}\n")
    print("| row | PyTorch | trainable | reserved, GB | predicted | error |\n|---|---|---|---|---|---|")
    errors = []
    for version in sorted({release(r) for r, _ in rows}):
        mine = [(r, j) for r, j in rows if release(r) == version]
        for (r, j), p in zip(mine, predicted([{**j, "seq": longest} for _, j in mine], version)):
            if r.get("trainable") is not None and r["trainable"] != p["trainable"]:
                sys.exit(f"{r['experiment']}: {p['trainable']} trainable parameters, {r['trainable']} published")
            error = 100 * (p["peak"]["reserved"] / r["reserved_max"] - 1)
            if r is not anchor[0]:
                errors.append(abs(error))
            print(f"| {r['experiment']} | {r['torch'].split('+')[0]} | {p['trainable']:,} | {r['reserved_max'] / 1e9:.2f} | {p['peak']['reserved'] / 1e9:.2f} | {error:+.2f} %{' (gives the length)' if r is anchor[0] else ''} |")
    errors.sort()
    inside = sum(e <= 2 for e in errors)
    print(f"\n{len(errors)} rows beside the one that gives the length: {inside} within 2 % ({100 * inside / len(errors):.0f} %), median {errors[len(errors) // 2]:.2f} %, worst {errors[-1]:.2f} %")


main()
