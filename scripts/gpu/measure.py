"""Measures real training jobs on a CUDA card: peak memory of each phase of three steps.

Reads jobs (one JSON object a line, the form of docs/jobs.md with source "hf") and writes the same lines with a field
"measured". Every job runs in a process of its own, forked before CUDA is initialised.

    python3 scripts/gpu/measure.py jobs.jsonl > measured.jsonl
"""
import json
import multiprocessing
import sys

import torch
import transformers
from transformers import AutoConfig

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
CLASSES = {
    "causal-lm": "AutoModelForCausalLM", "masked-lm": "AutoModelForMaskedLM", "seq-cls": "AutoModelForSequenceClassification",
    "token-cls": "AutoModelForTokenClassification", "seq2seq-lm": "AutoModelForSeq2SeqLM",
    "image-cls": "AutoModelForImageClassification", "speech-seq2seq": "AutoModelForSpeechSeq2Seq",
}


def config_of(job):
    fields = dict(job["config"])
    return AutoConfig.for_model(fields.pop("model_type"), **fields)


def build(job):
    config = config_of(job)
    if hasattr(config, "use_cache"):
        config.use_cache = False
    model = getattr(transformers, CLASSES[job["task"]]).from_config(config, attn_implementation=job.get("attn"))
    model.to(DTYPES[job.get("param_dtype", "fp32")])
    for name, parameter in model.named_parameters():
        if any(name.startswith(prefix) for prefix in job.get("freeze", [])):
            parameter.requires_grad_(False)
    if job.get("checkpointing"):
        model.gradient_checkpointing_enable()
    return model.train()


def batch_of(job, model):
    n, config = job["batch"], model.config
    dtype = DTYPES[job.get("param_dtype", "fp32")]
    if job["task"] == "image-cls":
        size = job["image"]
        pixels = torch.randn(n, getattr(config, "num_channels", 3), size, size, device="cuda", dtype=dtype)
        return {"pixel_values": pixels, "labels": torch.randint(0, config.num_labels, (n,), device="cuda")}
    ids = torch.randint(5, config.vocab_size, (n, job["seq"]), device="cuda")
    if job["task"] == "seq-cls":
        return {"input_ids": ids, "labels": torch.randint(0, config.num_labels, (n,), device="cuda")}
    if job["task"] == "token-cls":
        return {"input_ids": ids, "labels": torch.randint(0, config.num_labels, (n, job["seq"]), device="cuda")}
    if job["task"] == "seq2seq-lm":
        return {"input_ids": ids, "labels": torch.randint(5, config.vocab_size, (n, job["target_seq"]), device="cuda")}
    return {"input_ids": ids, "labels": ids}


def optimizer_of(job, model):
    parameters = [p for p in model.parameters() if p.requires_grad]
    name = job["optimizer"]
    forms = {
        "sgd": lambda: torch.optim.SGD(parameters, lr=1e-4),
        "sgdm": lambda: torch.optim.SGD(parameters, lr=1e-4, momentum=0.9),
        "adam": lambda: torch.optim.Adam(parameters, lr=1e-5),
        "adamw": lambda: torch.optim.AdamW(parameters, lr=1e-5),
        "adamw-fused": lambda: torch.optim.AdamW(parameters, lr=1e-5, fused=True),
        "adamw-loop": lambda: torch.optim.AdamW(parameters, lr=1e-5, foreach=False),
        "rmsprop": lambda: torch.optim.RMSprop(parameters, lr=1e-5),
        "adagrad": lambda: torch.optim.Adagrad(parameters, lr=1e-5),
        "adadelta": lambda: torch.optim.Adadelta(parameters, lr=1e-5),
        "adamax": lambda: torch.optim.Adamax(parameters, lr=1e-5),
        "nadam": lambda: torch.optim.NAdam(parameters, lr=1e-5),
        "radam": lambda: torch.optim.RAdam(parameters, lr=1e-5),
        "asgd": lambda: torch.optim.ASGD(parameters, lr=1e-5),
        "rprop": lambda: torch.optim.Rprop(parameters, lr=1e-5),
        "adafactor": lambda: torch.optim.Adafactor(parameters, lr=1e-5),
    }
    return forms[name]()


def phase_peak():
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    return peak


def one_step(job, model, optimizer, scaler, overall):
    peaks = {}

    def note(phase):
        overall["reserved"] = max(overall["reserved"], torch.cuda.max_memory_reserved())
        peaks[phase] = phase_peak()

    optimizer.zero_grad(set_to_none=True)
    note("zero_grad")
    autocast = job.get("autocast")
    batch = batch_of(job, model)
    with torch.autocast("cuda", dtype=DTYPES.get(autocast, torch.bfloat16), enabled=autocast is not None):
        out = model(**batch)
    loss = out.loss
    note("forward")
    (scaler.scale(loss) if scaler else loss).backward()
    note("backward")
    if scaler:
        scaler.step(optimizer)
        scaler.update()
    else:
        optimizer.step()
    note("optimizer")
    return peaks


def measure(job, send):
    try:
        model = build(job).cuda()
        measured = {
            "params": sum(p.numel() for p in model.parameters()), "trainable": sum(p.numel() for p in model.parameters() if p.requires_grad),
            "after_load": torch.cuda.memory_allocated(),
        }
        optimizer = optimizer_of(job, model)
        scaler = torch.amp.GradScaler("cuda") if job.get("autocast") == "fp16" else None
        torch.cuda.reset_peak_memory_stats()
        overall = {"reserved": 0}
        measured["phases"] = [one_step(job, model, optimizer, scaler, overall) for _ in range(3)]
        measured["peak_allocated"] = max(max(p.values()) for p in measured["phases"])
        measured["peak_reserved"] = overall["reserved"]
        job = dict(job, config=json.loads(model.config.to_json_string(use_diff=False)), measured=measured)
    except Exception as error:  # a job that cannot run is part of the result
        job = dict(job, failed=f"{type(error).__name__}: {error}"[:500])
    send.send(job)


def main():
    context = multiprocessing.get_context("fork")
    for line in open(sys.argv[1]):
        receive, send = context.Pipe(duplex=False)
        worker = context.Process(target=measure, args=(json.loads(line), send))
        worker.start()
        print(json.dumps(receive.recv()), flush=True)
        worker.join()


if __name__ == "__main__":
    main()
