"""Answers requests for the training step of a model.

Started as `python -m plimsoll._serve LIBRARY`, it imports that library and all else it needs, which takes longer than reading most models, and says `ready`. Every line of standard input
is then the path of a request (JSON: library, config, task, sizes, param_dtype, autocast, attn, use_cache, routing), a tab, and the path of an answer: the graph, gzipped, or, with the ending
.failure, the reason there is none. Each is read by a process of its own where processes can be forked; its exit status is the line that says it is done.
"""
import gzip
import importlib
import json
import os
import sys

from . import _diffusers, _inputs, _models, _packages, _timm

PACKAGES = {"timm": _timm.Model, "diffusers": _diffusers.Model}  # whose models are read beside those of transformers


def described(request):
    """The graph of a request."""
    if request.get("library") in PACKAGES:
        return _packages.describe(PACKAGES[request["library"]], request)
    return _models.describe(request)


def answer(request, out):
    """Answers one request; the exit status."""
    with open(request) as f:
        asked = json.load(f)
    try:
        text = described(asked)
    except _models.Refused as reason:
        return fail(out, str(reason))
    except _inputs.Missing as missing:
        return fail(out, str(missing), asks=True)
    except ImportError as missing:
        return fail(out, f"{' '.join(str(missing).split())}; install it in this Python, or name another with --python")
    except Exception as problem:
        return fail(out, f"{type(problem).__name__}: {problem}")
    with open(out, "wb") as f:
        f.write(gzip.compress(text.encode(), 6, mtime=0))
    return 0


def fail(out, why, asks=False):
    """Says why there is no graph; asks: the job has to say something more."""
    with open(out + ".failure", "w") as f:
        json.dump({"why": why[:2000], "asks": asks}, f)
    return 1


def apart(request, out):
    """Answers one request in a process of its own."""
    if not sys.platform.startswith("linux"):
        return answer(request, out)
    child = os.fork()
    if child == 0:
        os._exit(answer(request, out))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main():
    import torch

    # The folder that all of them lie in is removed once this is ready.
    from . import _flash, _forward, _layers, _shapes

    importlib.import_module((sys.argv[1:] or ["transformers"])[0])
    told = sys.stdout
    sys.stdout = sys.stderr  # models may print
    print("ready", file=told, flush=True)
    for line in sys.stdin:
        request, out = line.rstrip("\n").split("\t")
        print(apart(request, out), file=told, flush=True)


if __name__ == "__main__":
    main()
