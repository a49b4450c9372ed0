"""Profiles training steps on a CUDA card: which kernels each operator launches, at which shapes, and how long they take.

Reads the same models as measure_planning.py with "forms" (a list of fields that make a job of them: batch, autocast, param_dtype, checkpointing) and writes, for each, one
line with the job, the time of a step without the profiler, and "kernels": [operator, shapes, kernel, times in a step, microseconds in a step], and
"operators": [operator, times in a step] of everything the host ran.

    python3 scripts/gpu/profile_steps.py scripts/gpu/profiled.jsonl > kernels.jsonl
"""
import collections
import copy
import gc
import json
import sys

import torch
from torch.profiler import ProfilerActivity, profile

from measure import DTYPES, build, optimizer_of
from measure_planning import STEPS, forward_backward, in_processes, timed, vision

PROFILED = 2


def one_step(row, model, optimizer):
    optimizer.zero_grad(set_to_none=True)
    forward_backward(row, model)
    optimizer.step()
    torch.cuda.synchronize()


def profiled(row, model, optimizer):
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True) as prof:
        for _ in range(PROFILED):
            one_step(row, model, optimizer)
    kernels, operators = collections.defaultdict(lambda: [0, 0.0]), collections.Counter()
    for event in prof.events():
        if event.device_type != torch.autograd.DeviceType.CPU:
            continue
        operators[event.name] += 1
        for kernel in event.kernels:
            entry = kernels[event.name, json.dumps(event.input_shapes), kernel.name[:160]]
            entry[0] += 1
            entry[1] += kernel.duration
    return ([[op, json.loads(shapes), name, count / PROFILED, round(us / PROFILED, 2)] for (op, shapes, name), (count, us) in kernels.items()],
            [[name, count / PROFILED] for name, count in operators.most_common(200)])


def profile_model(model_line):
    base = None
    fields = {k: v for k, v in model_line.items() if k not in ("micro_batches", "checkpointings", "forms", "effective_batch")}
    for form in model_line["forms"]:
        row = {**fields, **form}
        if base is None:
            base = build({k: v for k, v in row.items() if k not in ("param_dtype", "checkpointing")}) if row["source"] == "hf" else vision(row)
        try:
            gc.collect()
            torch.cuda.empty_cache()
            model = copy.deepcopy(base).to(DTYPES[row.get("param_dtype", "fp32")]).cuda()
            if row.get("checkpointing"):
                model.gradient_checkpointing_enable()
            optimizer = optimizer_of(row, model)
            for _ in range(3):
                one_step(row, model, optimizer)
            times = [timed(row, model, optimizer) for _ in range(STEPS)]
            row["measured"] = {"fwdbwd_ms": min(a for a, _ in times), "opt_ms": min(b for _, b in times)}
            row["kernels"], row["operators"] = profiled(row, model, optimizer)
        except Exception as error:  # a job that cannot run is part of the result
            row["failed"] = f"{type(error).__name__}: {error}"[:300]
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    in_processes(profile_model, sys.argv[1])
