"""Reads every model type of the installed transformers from its code, built small: sweep.py OUT [--seconds N] [--only TYPE,TYPE*] [--shard I/N]

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


class TooLong(BaseException):
    pass


COUNTS = ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers", "num_decoder_layers", "num_encoder_layers", "depth")


def small(given):
    """A configuration with few layers: widths stay what the family's own defaults are, and lists with an entry a layer keep one of each kind."""
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
                out[key] = spread(value)
            if isinstance(value, dict) and value and all(str(k).isdigit() for k in value):
                out[key] = {k: v for k, v in value.items() if int(k) < LAYERS}
        if isinstance(out.get("num_kv_shared_layers"), int):
            out["num_kv_shared_layers"] = 0
    if any(str(s).startswith("stage") for s in out.get("out_features") or []) and any(n in out for n in COUNTS):
        out["out_features"], out["out_indices"] = None, None
    return out


def spread(value):
    """As many entries as there are layers: one of each kind before a second of any."""
    kinds = [v for i, v in enumerate(value) if v not in value[:i]]
    return (kinds + value)[:LAYERS] if len(kinds) > 1 else value[:LAYERS]


def described(transformers, kind):
    """The job and its graph, with few layers if the family takes that, else as its default is."""
    default = {**transformers.CONFIG_MAPPING[kind]().to_dict(), "model_type": kind}
    problem = None
    for given, sizes in ((small(default), (96, 64)), (small(default), (48, 32)), (default, (48, 32))):
        try:
            return read(transformers, given, *sizes)
        except TooLong:
            raise
        except Exception as failure:
            problem = problem or failure
    raise problem


def read(transformers, given, seq, target):
    job = {"config": given, "batch": 2, "seq": seq, "target_seq": target, "param_dtype": "fp32", "optimizer": "adamw"}
    text = _models.describe(job)
    job["task"] = json.loads(text)["plimsoll"]["task"]
    return job, text


def main():
    p = argparse.ArgumentParser()
    p.add_argument("out")
    p.add_argument("--seconds", type=float, default=1e9)
    p.add_argument("--only", default="")
    p.add_argument("--shard", default="0/1")
    p.add_argument("--one-size", action="store_true", help="read each at one size alone: three times as fast")
    o = p.parse_args()
    if o.one_size:
        sizes_of = _models.sizes_of
        _models.sizes_of = lambda request, symbols, corners=False: sizes_of(request, (), False)
    import transformers

    def alarm(*args):
        raise TooLong(f"not read within {EACH} seconds")

    signal.signal(signal.SIGALRM, alarm)
    os.makedirs(o.out, exist_ok=True)
    begun = time.monotonic()
    left = 0
    me, of = map(int, o.shard.split("/"))
    for kind in sorted(transformers.CONFIG_MAPPING.keys())[me::of]:
        if o.only and not any(kind == w or w.endswith("*") and kind.startswith(w[:-1]) for w in o.only.split(",")):
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
