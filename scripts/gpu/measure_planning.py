"""Measures grids of micro-batch, precision and checkpointing on a CUDA card: peak memory and time of forward with backward, and of the optimizer's step.

Reads models (one JSON object a line: the fields of a job with source "hf", or with a torchvision name, and "micro_batches", "effective_batch", "checkpointings", "forms")
and writes one job a line with "measured", in the form of the rows that `plimsoll fit` is tested with.

    python3 scripts/gpu/measure_planning.py scripts/gpu/planning.jsonl > measured.jsonl
"""
import copy
import gc
import json
import multiprocessing
import statistics
import sys

import torch

from measure import DTYPES, batch_of, build, optimizer_of, phase_peak

FORMS = [{}, {"autocast": "bf16"}, {"param_dtype": "bf16"}]
STEPS = 4  # timed, after two whose peaks are read


def rows_of(grid):
    fields = {k: v for k, v in grid.items() if k not in ("micro_batches", "checkpointings", "forms")}
    for form in grid.get("forms", FORMS):
        for checkpointing in grid.get("checkpointings", [False, True]):
            for batch in grid["micro_batches"]:
                row = {**fields, **form, "batch": batch, **({"checkpointing": True} if checkpointing else {})}
                row["id"] = "-".join([row["model"], *(form.values() or ["fp32"]), *(["full"] if checkpointing else []), str(batch)])
                yield row


def vision(row):
    import torchvision

    return torchvision.models.get_model(row["model"], weights=None).train()


def forward_backward(row, model, between=lambda: None):
    """Forward and backward of a fresh batch; outputs, loss and batch live until the end of backward, as in a loop whose step is a function."""
    batch = made(row, model)
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=row.get("autocast") is not None):
        if row["source"] == "hf":
            out = model(**batch)
            loss = out.loss
        else:
            out = model(batch["pixel_values"])
            loss = torch.nn.functional.cross_entropy(out, batch["labels"])
    between()
    loss.backward()


def made(row, model):
    if row["source"] == "hf":
        return batch_of(row, model)
    dtype = DTYPES[row.get("param_dtype", "fp32")]
    pixels = torch.randn(row["batch"], 3, row["image"], row["image"], device="cuda", dtype=dtype)
    return {"pixel_values": pixels, "labels": torch.randint(0, row["classes"], (row["batch"],), device="cuda")}


def looked_at(row, model, optimizer):
    """A step whose phases' peaks are read, which waits for the card between phases."""
    phases = {}
    optimizer.zero_grad(set_to_none=True)
    phases["zero_grad"] = phase_peak()
    forward_backward(row, model, lambda: phases.update(forward=phase_peak()))
    phases["backward"] = phase_peak()
    optimizer.step()
    reserved = torch.cuda.max_memory_reserved()
    phases["optimizer"] = phase_peak()
    return phases, reserved


def timed(row, model, optimizer):
    """Milliseconds of forward with backward, and of the optimizer's step, by the card's own clock; nothing waits in between."""
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(3)]
    optimizer.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    marks[0].record()
    forward_backward(row, model)
    marks[1].record()
    optimizer.step()
    marks[2].record()
    torch.cuda.synchronize()
    return marks[0].elapsed_time(marks[1]), marks[1].elapsed_time(marks[2])


def measure(row, base):
    """One job on a card that holds nothing of an earlier one: no cached segment, no workspace."""
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    model = copy.deepcopy(base).to(DTYPES[row.get("param_dtype", "fp32")]).cuda()
    if row.get("checkpointing"):
        model.gradient_checkpointing_enable()
    measured = {"params": sum(p.numel() for p in model.parameters()), "after_load": torch.cuda.memory_allocated()}
    optimizer = optimizer_of(row, model)
    torch.cuda.reset_peak_memory_stats()
    steps = [looked_at(row, model, optimizer) for _ in range(2)]
    measured["phases"] = [phases for phases, _ in steps]
    times = [timed(row, model, optimizer) for _ in range(STEPS)]
    measured["peak_allocated"] = max(torch.cuda.max_memory_allocated(), *(max(p.values()) for p in measured["phases"]))
    measured["peak_reserved"] = max(torch.cuda.max_memory_reserved(), *(reserved for _, reserved in steps))
    measured["fwdbwd_ms"] = statistics.median(a for a, _ in times)
    measured["opt_ms"] = statistics.median(b for _, b in times)
    return measured


def measure_grid(grid):
    base = None
    for row in rows_of(grid):
        if base is None:
            base = build(row) if row["source"] == "hf" else vision(row)
        if row["source"] == "hf":
            row["config"] = json.loads(base.config.to_json_string(use_diff=False))
        try:
            row["measured"] = measure(row, base)
        except torch.cuda.OutOfMemoryError:
            row.update(oom=True, measured=None)
        except Exception as error:  # a job that cannot run is part of the result
            row["failed"] = f"{type(error).__name__}: {error}"[:300]
        print(json.dumps(row), flush=True)


def in_processes(target, path):
    """Calls target with each line of a file, one after the other, each in a process of its own."""
    context = multiprocessing.get_context("spawn")
    for line in open(path):
        worker = context.Process(target=target, args=(json.loads(line),))
        worker.start()
        worker.join()


if __name__ == "__main__":
    in_processes(measure_grid, sys.argv[1])
