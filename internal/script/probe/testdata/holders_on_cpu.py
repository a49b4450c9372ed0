"""Runs every program of the folder holders on the processor in this one process, and prints a line of JSON for each: `holders_on_cpu.py [NAME...]`."""
import gc
import json
import os
import runpy
import sys
import traceback

folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "holders")
sys.path.insert(0, folder)
import kit
from plimsoll import _holders

# What libraries hold is the same in all of these programs and takes nearly all the time of a walk: it is looked at in those that import one, and in these.
LIBRARIES = {"activations", "backward_peak", "broadcast_temporary", "default_argument", "last_exception", "lru_cache", "notebook_outputs", "reference_cycle"}
namespaces = _holders._namespaces


def without_libraries(walk):
    scripts, _ = namespaces(walk)
    return scripts, []


def heavy(name):
    """Whether a program imports a large library, which every later walk goes through, or a custom Function, whose class PyTorch never lets go."""
    with open(os.path.join(folder, name + ".py")) as f:
        text = f.read()
    return any(word in text for word in ("transformers", "accelerate", "lightning", "torch.compile", "distributed", "autograd.Function", "IPython"))


def order(name):
    """Optimizers import torch._dynamo, which later walks go through as well."""
    with open(os.path.join(folder, name + ".py")) as f:
        text = f.read()
    return heavy(name), name in LIBRARIES, any(word in text for word in ("optim", "kit.learn", "kit.sgd")), name


def run(name):
    path = os.path.join(folder, name + ".py")
    with open(path) as f:
        truth, holder = (f.readline().split(":", 1)[1].strip() for _ in range(2))
    kit.result = None
    _holders._namespaces = namespaces if heavy(name) or name in LIBRARIES else without_libraries
    try:
        runpy.run_path(path, run_name="__main__")
    except kit.Looked:
        pass
    except ImportError as problem:
        return {"program": name, "skipped": str(problem)}
    except Exception:
        return {"program": name, "error": traceback.format_exc()[-2000:]}
    sys.last_value = None
    getattr(sys.modules.get("shelf"), "KEPT", []).clear()
    role, _, want = holder.partition(" ")
    r = kit.result or {"error": "the program was not looked into"}
    top = [h for h in r.get("holders", []) if h["bytes"] * 20 >= max(g["bytes"] for g in r["holders"])]
    right = [h for h in top if h["role"] == role and want.strip() in h["name"]]
    shown = (right or top or [{}])[0]
    return {
        "program": name, "truth": truth, "want": holder, "right": bool(right), "problem": r.get("problem", r.get("error")), "walk": r.get("walk"),
        "shown": {k: shown.get(k) for k in ("role", "name", "in", "bytes", "count", "op", "module", "also")},
        "top": [(h["role"], h["name"], h["bytes"]) for h in r.get("holders", [])[:6]],
    }


if __name__ == "__main__":
    names = sys.argv[1:] or sorted((f[:-3] for f in os.listdir(folder) if f.endswith(".py") and f not in ("kit.py", "shelf.py")), key=order)
    for name in names:
        print(json.dumps(run(name)), flush=True)
        gc.enable()
        gc.collect()
