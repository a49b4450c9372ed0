"""rows.py CHECKOUT SCRIPT ROWS SMS: calls a benchmark of Liger's as it was called for published rows, one after the other, for plimsoll to follow.

CHECKOUT is the repository at one commit, SCRIPT the benchmark in it, ROWS a JSON file: a list of {kernel, provider, mode, x, config}, SMS how many multiprocessors the card has. The script runs as it is, up to its calls of
run_benchmarks: those about memory call the benchmark for each of the rows instead of for all sizes. What is measured is called three times (ten in Liger), and before each
time a tensor of a size that nobody else asks for says which row begins. What fails is told in ROWS.failed.
"""
import importlib.metadata
import json
import os
import runpy
import sys
import traceback

import torch

FIRST, LAST = 700_003, 900_003  # bytes of the tensors between rows (internal/script/capture/kernels_test.go)


def main():
    checkout, script, file, sms = sys.argv[1:5]
    torch.cuda.get_device_properties(0).multi_processor_count = int(sms)
    rows, failed = json.load(open(file)), {}
    sys.path[:0] = [os.path.join(checkout, "src"), os.path.join(checkout, "benchmark", "scripts"), os.path.join(checkout, "benchmark"), checkout]
    known = importlib.metadata.version
    importlib.metadata.version = lambda name: "0" if name.replace("_", "-") == "liger-kernel" else known(name)
    import utils

    row = None

    def test_memory(func, *args, quantiles=None, **kwargs):
        for _ in range(3):
            torch.empty(FIRST + 8 * row, dtype=torch.uint8, device="cuda")
            func()
        torch.empty(LAST, dtype=torch.uint8, device="cuda")
        return [0.0, 0.0, 0.0] if quantiles else 0.0

    def run_benchmarks(bench_test_fn, kernel_name, metric_name, *args, **kwargs):
        nonlocal row
        if metric_name != "memory":
            return
        for row, r in enumerate(rows):
            if r["kernel"] != kernel_name or r.get("done"):
                continue
            r["done"] = True
            config = {k: getattr(torch, v[6:]) if isinstance(v, str) and v.startswith("torch.") else v for k, v in r["config"].items()}
            asked = utils.SingleBenchmarkRunInput(x=r["x"], kernel_provider=r["provider"], kernel_operation_mode=r["mode"], extra_benchmark_config=config)
            try:
                bench_test_fn(asked)
            except Exception as problem:
                failed[row] = f"{type(problem).__name__}: {problem} ({traceback.extract_tb(problem.__traceback__)[-1]})"[:400]
            write()

    def write():
        left = {i: "no call of run_benchmarks is about it" for i, r in enumerate(rows) if not r.get("done")}
        with open(file + ".failed", "w") as f:
            json.dump({**left, **failed}, f)

    utils._test_memory, utils.run_benchmarks = test_memory, run_benchmarks
    sys.argv = [script]
    write()
    runpy.run_path(script, run_name="__main__")


main()
