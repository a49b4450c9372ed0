"""Exports torchvision models, and measures their training on a CUDA card.

    python3 scripts/gpu/measure_graphs.py export DIR     one DIR/NAME.json.gz a model: the model.json of torch.export, batch dimension symbolic; needs no card
    python3 scripts/gpu/measure_graphs.py measure        jobs of source "graph" with "measured" (peak memory of each phase of three steps), a line each
"""
import gc
import gzip
import io
import json
import os
import sys
import zipfile

import torch
import torchvision

MODELS = ["resnext50_32x4d", "wide_resnet50_2", "mobilenet_v3_large", "regnet_y_400mf", "mnasnet1_0", "squeezenet1_1", "efficientnet_v2_s", "vit_b_32", "swin_t", "resnet101"]
FORMS = [{}, {"autocast": "bf16"}, {"param_dtype": "bf16"}]
BATCH, IMAGE, CLASSES = 32, 224, 1000


def export(folder):
    for name in MODELS:
        sample = torch.randn(4, 3, IMAGE, IMAGE)
        try:
            model = torchvision.models.get_model(name, weights=None).train()
            program = torch.export.export(model, (sample,), dynamic_shapes=({0: torch.export.Dim("batch", min=2, max=4096)},), strict=False)
        except Exception as error:
            print(name, "not exported:", str(error)[:200], flush=True)
            continue
        buffer = io.BytesIO()
        torch.export.save(program, buffer)
        archive = zipfile.ZipFile(io.BytesIO(buffer.getvalue()))
        inside = next(n for n in archive.namelist() if n.endswith(("models/model.json", "serialized_exported_program.json")))
        with open(os.path.join(folder, name + ".json.gz"), "wb") as f:
            f.write(gzip.compress(archive.read(inside), mtime=0))


def peak():
    torch.cuda.synchronize()
    value = torch.cuda.max_memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    return value


def step(model, optimizer, form, dtype):
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
    reserved = torch.cuda.max_memory_reserved()
    phases["optimizer"] = peak()
    return phases, reserved


def measure(name, form):
    """One job on a card that holds nothing of an earlier one: no cached segment, no workspace."""
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    dtype = torch.bfloat16 if form.get("param_dtype") == "bf16" else torch.float32
    model = torchvision.models.get_model(name, weights=None).to(dtype).cuda().train()
    measured = {"params": sum(p.numel() for p in model.parameters()), "after_load": torch.cuda.memory_allocated(), "phases": []}
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
    torch.cuda.reset_peak_memory_stats()
    steps = [step(model, optimizer, form, dtype) for _ in range(3)]
    measured["phases"] = [phases for phases, _ in steps]
    measured["peak_allocated"] = max(max(p.values()) for p in measured["phases"])
    measured["peak_reserved"] = max(reserved for _, reserved in steps)
    return measured


def main():
    if sys.argv[1] == "export":
        export(sys.argv[2])
        return
    for name in MODELS:
        for form in FORMS:
            job = {"id": f"{name}-{'-'.join(form.values()) or 'fp32'}", "model": name, "source": "graph", "graph": f"{name}.json.gz", "loss": "cross-entropy",
                   "classes": CLASSES, "batch": BATCH, "image": IMAGE, "optimizer": "sgdm", **form}
            try:
                job["measured"] = measure(name, form)
            except Exception as error:  # a job that cannot run is part of the result
                job["failed"] = f"{type(error).__name__}: {error}"[:300]
            print(json.dumps(job), flush=True)


if __name__ == "__main__":
    main()
