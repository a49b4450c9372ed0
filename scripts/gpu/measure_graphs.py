"""Exports torchvision models and measures their training on a CUDA card.

Writes OUT/graphs.tar (one .json.gz a model: the model.json of torch.export, batch dimension symbolic) and OUT/graphs.jsonl (jobs of source
"graph" with "measured": peak memory of each phase of three steps). Every job runs in a process of its own.

    python3 scripts/gpu/measure_graphs.py OUT
"""
import gzip
import io
import json
import multiprocessing
import os
import sys
import tarfile
import zipfile

import torch
import torchvision

MODELS = ["resnext50_32x4d", "wide_resnet50_2", "mobilenet_v3_large", "regnet_y_400mf", "mnasnet1_0", "squeezenet1_1", "efficientnet_v2_s", "vit_b_32", "swin_t", "resnet101"]
FORMS = [{}, {"autocast": "bf16"}, {"param_dtype": "bf16"}]
BATCH, IMAGE, CLASSES = 32, 224, 1000


def graph_of(model):
    model = model.train()
    sample = torch.randn(4, 3, IMAGE, IMAGE)
    program = torch.export.export(model, (sample,), dynamic_shapes=({0: torch.export.Dim("batch", min=2, max=4096)},), strict=False)
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    archive = zipfile.ZipFile(io.BytesIO(buffer.getvalue()))
    name = next(n for n in archive.namelist() if n.endswith("models/model.json") or n.endswith("serialized_exported_program.json"))
    return gzip.compress(archive.read(name), mtime=0)


def peak():
    torch.cuda.synchronize()
    value = torch.cuda.max_memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    return value


def measure(name, form, send):
    dtype = torch.bfloat16 if form.get("param_dtype") == "bf16" else torch.float32
    try:
        model = torchvision.models.get_model(name, weights=None).to(dtype).cuda().train()
        measured = {"params": sum(p.numel() for p in model.parameters()), "after_load": torch.cuda.memory_allocated(), "phases": []}
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
        torch.cuda.reset_peak_memory_stats()
        reserved = 0
        for _ in range(3):
            phases = {}

            def forward_backward():
                x = torch.randn(BATCH, 3, IMAGE, IMAGE, device="cuda", dtype=dtype)
                y = torch.randint(0, CLASSES, (BATCH,), device="cuda")
                with torch.autocast("cuda", dtype=torch.bfloat16, enabled="autocast" in form):
                    out = model(x)
                    loss = torch.nn.functional.cross_entropy(out, y)
                phases["forward"] = peak()
                loss.backward()
                phases["backward"] = peak()

            optimizer.zero_grad(set_to_none=True)
            phases["zero_grad"] = peak()
            forward_backward()
            optimizer.step()
            reserved = max(reserved, torch.cuda.max_memory_reserved())
            phases["optimizer"] = peak()
            measured["phases"].append(phases)
        measured["peak_allocated"] = max(max(p.values()) for p in measured["phases"])
        measured["peak_reserved"] = reserved
        send.send(measured)
    except Exception as error:
        send.send({"failed": f"{type(error).__name__}: {error}"[:300]})


def main():
    out = sys.argv[1]
    context = multiprocessing.get_context("fork")
    with tarfile.open(os.path.join(out, "graphs.tar"), "w") as tar, open(os.path.join(out, "graphs.jsonl"), "w") as rows:
        for name in MODELS:
            try:
                data = graph_of(torchvision.models.get_model(name, weights=None))
            except Exception as error:
                print(name, "not exported:", str(error)[:200], flush=True)
                continue
            info = tarfile.TarInfo(name + ".json.gz")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
            for form in FORMS:
                receive, send = context.Pipe(duplex=False)
                worker = context.Process(target=measure, args=(name, form, send))
                worker.start()
                measured = receive.recv()
                worker.join()
                job = {"id": f"{name}-{'-'.join(form.values()) or 'fp32'}", "model": name, "source": "graph", "graph": f"{name}.json.gz", "loss": "cross-entropy",
                       "classes": CLASSES, "batch": BATCH, "image": IMAGE, "optimizer": "sgdm", **form, "measured": measured}
                rows.write(json.dumps(job) + "\n")
                rows.flush()
                print(job["id"], measured.get("failed") or measured["peak_allocated"] >> 20, flush=True)


if __name__ == "__main__":
    main()
