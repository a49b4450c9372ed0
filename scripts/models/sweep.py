"""Reads every model type of the installed transformers from its code, built small: sweep.py OUT [--seconds N] [--only WORD] [--shard I/N]

OUT gets TYPE.json.gz (the graph), TYPE.job.json (the job), or TYPE.failure (why there is none); what is there already is skipped, so that it can be run in pieces.
"""
import argparse
import gzip
import json
import os
import signal
import sys
import time

from plimsoll import _models

LAYERS = 2
EACH = 60  # seconds at most


class TooLong(Exception):
    pass


COUNTS = ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers", "num_decoder_layers", "num_encoder_layers", "depth")


def small(given):
    """A configuration with few layers: widths stay what the family's own defaults are, and lists with an entry a layer keep their first and last."""
    if not isinstance(given, dict):
        return given
    out = {k: small(v) for k, v in given.items()}
    for name in COUNTS:
        many = out.get(name)
        if isinstance(many, bool) or not isinstance(many, int) or many <= LAYERS:
            continue
        out[name] = LAYERS
        for key, value in out.items():
            if isinstance(value, list) and len(value) == many:
                out[key] = [value[0], value[-1]]
    if any(str(s).startswith("stage") for s in out.get("out_features") or []) and any(n in out for n in COUNTS):
        out["out_features"], out["out_indices"] = None, None
    return out


def described(transformers, kind):
    """The job and its graph, with few layers if the family takes that, else as its default is."""
    default = {**transformers.CONFIG_MAPPING[kind]().to_dict(), "model_type": kind}
    problem = None
    for given in (small(default), default):
        try:
            return read(transformers, given)
        except (_models.Refused, TooLong):
            raise
        except Exception as failure:
            problem = problem or failure
    raise problem


def read(transformers, given):
    config = _models.configuration(transformers, given)
    job = {"config": given, "batch": 2, "seq": 96, "target_seq": 64, "image": image_of(config), "frames": 3000, "param_dtype": "fp32", "optimizer": "adamw"}
    job["task"] = _models.task_of(transformers, config, None)
    keep = _models.OPEN[job["task"]] + {"image-cls": ("image",), "speech-seq2seq": ("frames",)}.get(job["task"], ())
    job = {k: v for k, v in job.items() if k not in ("seq", "target_seq", "image", "frames") or k in keep}
    return job, _models.describe(job)


def image_of(config):
    for part in (config, getattr(config, "vision_config", None), getattr(config, "backbone_config", None)):
        try:
            size = getattr(part, "image_size", None)
        except Exception:
            size = None
        if isinstance(size, (list, tuple)):
            size = size[0]
        if isinstance(size, int):
            return size
    return 224


def main():
    p = argparse.ArgumentParser()
    p.add_argument("out")
    p.add_argument("--seconds", type=float, default=1e9)
    p.add_argument("--only", default="")
    p.add_argument("--shard", default="0/1")
    o = p.parse_args()
    import transformers

    def alarm(*args):
        raise TooLong(f"not read within {EACH} seconds")

    signal.signal(signal.SIGALRM, alarm)
    os.makedirs(o.out, exist_ok=True)
    begun = time.monotonic()
    left = 0
    me, of = map(int, o.shard.split("/"))
    for kind in sorted(transformers.CONFIG_MAPPING.keys())[me::of]:
        if o.only not in kind:
            continue
        base = os.path.join(o.out, kind.replace("/", "_"))
        if any(os.path.exists(base + e) for e in (".json.gz", ".failure")):
            continue
        if time.monotonic() - begun > o.seconds:
            left += 1
            continue
        signal.alarm(EACH)
        try:
            job, text = described(transformers, kind)
            with open(base + ".job.json", "w") as f:
                json.dump({"id": kind, "source": "hf", **job}, f, default=str)
            with open(base + ".json.gz", "wb") as f:
                f.write(gzip.compress(text.encode(), 6, mtime=0))
        except BaseException as problem:
            if isinstance(problem, KeyboardInterrupt):
                raise
            with open(base + ".failure", "w") as f:
                f.write(str(problem) if isinstance(problem, (_models.Refused, TooLong)) else f"{type(problem).__name__}: {problem}"[:400])
        finally:
            signal.alarm(0)
    print(f"{left} left", file=sys.stderr)
    return 75 if left else 0


if __name__ == "__main__":
    sys.exit(main())
