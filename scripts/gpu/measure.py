"""Measures real training jobs on a CUDA card: peak memory of each phase of three steps.

Reads jobs (one JSON object a line, the form of docs/jobs.md with source "hf") and writes the same lines with a field
"measured". Every job runs in a process of its own, forked before CUDA is initialised. Adapters need peft, a quantized base and
8-bit or paged optimizers bitsandbytes, "lion" lion_pytorch, "galore" galore_torch, and the loss kernel "liger" liger_kernel.

    python3 scripts/gpu/measure.py jobs.jsonl > measured.jsonl
"""
import importlib
import json
import multiprocessing
import os
import sys
import tempfile

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
    if job.get("loss_kernel") == "liger":
        fuse_loss(config.model_type)
    cls, dtype = getattr(transformers, CLASSES[job["task"]]), DTYPES[job.get("param_dtype", "fp32")]
    with torch.device("meta"):  # what is imported on the way makes constants, which would stay on the card
        cls.from_config(config, attn_implementation=job.get("attn"))
    with torch.device("cuda"):  # random numbers are made faster there
        model = cls.from_config(config, attn_implementation=job.get("attn"))
    model = model.to(dtype).cpu()
    torch.cuda.empty_cache()
    if job.get("base_bits"):
        model = quantized(job, cls, model, dtype)
    for name, parameter in model.named_parameters():
        if any(name.startswith(prefix) for prefix in job.get("freeze", [])):
            parameter.requires_grad_(False)
    if job.get("checkpointing") and not job.get("base_bits"):
        model.gradient_checkpointing_enable()
    if job.get("lora_rank"):
        model = adapted(job, model)
    return model.train()


def fuse_loss(kind):
    """Liger's loss, which is computed together with the head, and none of its other kernels."""
    patches = importlib.import_module("liger_kernel.transformers.monkey_patch")
    patches.MODEL_TYPE_TO_APPLY_LIGER_FN[kind](
        **{"rope": False, "rms_norm": False, "cross_entropy": False, "fused_linear_cross_entropy": True, {"gemma2": "geglu", "gemma": "geglu"}.get(kind, "swiglu"): False})


def quantized(job, cls, model, dtype):
    """The model as from_pretrained reads it onto the card in four or eight bits, ready for adapters."""
    from peft import prepare_model_for_kbit_training
    from transformers import BitsAndBytesConfig

    compute = DTYPES[job["autocast"]] if job.get("autocast") else dtype
    how = BitsAndBytesConfig(load_in_8bit=True) if job["base_bits"] == 8 else BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=compute)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        model.save_pretrained(folder)
        del model
        model = cls.from_pretrained(folder, quantization_config=how, dtype=dtype, device_map={"": 0}, attn_implementation=job.get("attn"))
    model.config.use_cache = False
    return prepare_model_for_kbit_training(model, use_gradient_checkpointing=bool(job.get("checkpointing")))


def adapted(job, model):
    from peft import LoraConfig, get_peft_model

    targets = job.get("lora_targets", ["q_proj", "v_proj"])
    return get_peft_model(model, LoraConfig(
        r=job["lora_rank"], lora_dropout=job.get("lora_dropout", 0.0), use_dora=bool(job.get("dora")), target_modules="all-linear" if targets == ["all-linear"] else targets,
        task_type={"causal-lm": "CAUSAL_LM", "seq-cls": "SEQ_CLS", "seq2seq-lm": "SEQ_2_SEQ_LM"}.get(job["task"])))


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


LIBRARIES = {
    "adamw-8bit": "bitsandbytes.optim.AdamW8bit", "adamw-paged": "bitsandbytes.optim.PagedAdamW32bit", "adamw-paged-8bit": "bitsandbytes.optim.PagedAdamW8bit",
    "lion": "lion_pytorch.Lion", "lion-8bit": "bitsandbytes.optim.Lion8bit",
}


def by_matrices(name, named):
    """Optimizers that treat the matrices of hidden layers apart."""
    hidden = lambda n, p: p.dim() == 2 and not any(part in n for part in ("embed", "wte", "wpe", "lm_head", "classifier", "score"))
    matrices, others = [p for n, p in named if hidden(n, p)], [p for n, p in named if not hidden(n, p)]
    if name == "galore":
        from galore_torch import GaLoreAdamW

        return GaLoreAdamW([{"params": others}, {"params": matrices, "rank": 128, "update_proj_gap": 200, "scale": 0.25, "proj_type": "std"}], lr=1e-5)
    return Both(torch.optim.Muon(matrices, lr=1e-5), torch.optim.AdamW(others, lr=1e-5))


class Both:
    """Two optimizers that share a model."""

    def __init__(self, *each):
        self.each = each

    def zero_grad(self, **how):
        for o in self.each:
            o.zero_grad(**how)

    def step(self):
        for o in self.each:
            o.step()


def optimizer_of(job, model):
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    parameters, name = [p for _, p in named], job["optimizer"]
    if name in LIBRARIES:
        library, _, cls = LIBRARIES[name].rpartition(".")
        return getattr(importlib.import_module(library), cls)(parameters, lr=1e-5)
    if name in ("galore", "muon"):
        return by_matrices(name, named)
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

    def forward_backward():
        """Outputs and loss are its locals: a job's "loop" is "function"."""
        autocast = job.get("autocast")
        batch = batch_of(job, model)
        with torch.autocast("cuda", dtype=DTYPES.get(autocast, torch.bfloat16), enabled=autocast is not None):
            out = model(**batch)
        note("forward")
        (scaler.scale(out.loss) if scaler else out.loss).backward()
        note("backward")

    optimizer.zero_grad(set_to_none=True)
    note("zero_grad")
    forward_backward()
    if scaler:
        scaler.step(optimizer)
        scaler.update()
    else:
        optimizer.step()
    note("optimizer")
    return peaks


def measure(job, send):
    try:
        model = build(job)
        model = model if job.get("base_bits") else model.cuda()
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
