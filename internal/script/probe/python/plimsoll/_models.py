"""Builds a model of transformers from its configuration, without weights, and writes its training step down (see _forward).

Started as `python -m plimsoll._models REQUEST OUT`: the request is JSON (config, task, sizes, param_dtype, autocast, attn, use_cache); OUT becomes the graph, gzipped,
or, with the ending .failure, the reason there is none.
"""
import contextlib
import gzip
import json
import sys

AUTO = {
    "causal-lm": "AutoModelForCausalLM", "masked-lm": "AutoModelForMaskedLM", "seq-cls": "AutoModelForSequenceClassification",
    "token-cls": "AutoModelForTokenClassification", "seq2seq-lm": "AutoModelForSeq2SeqLM", "image-cls": "AutoModelForImageClassification",
    "speech-seq2seq": "AutoModelForSpeechSeq2Seq",
}
TASKS = ["causal-lm", "seq2seq-lm", "masked-lm", "image-cls", "speech-seq2seq", "seq-cls", "token-cls"]
WORDS = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


class Refused(Exception):
    """A model that cannot be described, with the reason for the user."""


def configuration(transformers, given):
    kind = given.get("model_type")
    try:
        cls = transformers.CONFIG_MAPPING[kind]
    except KeyError:
        raise Refused(f"transformers {transformers.__version__} has no model_type {kind!r}; a newer release may have it")
    return cls.from_dict(dict(given))


def task_of(transformers, config, wanted):
    """The task and its class: the one asked for, else the one the file names, else the first the family has."""
    if wanted:
        return wanted
    named = " ".join(config.architectures or [])
    for task in TASKS:
        mapping = getattr(transformers, AUTO[task])._model_mapping
        if type(config) in mapping and any(c.__name__ in named.split() for c in _classes(mapping[type(config)])):
            return task
    for task in TASKS:
        if type(config) in getattr(transformers, AUTO[task])._model_mapping:
            return task
    raise Refused(f"transformers has no model of {config.model_type} for any of {', '.join(TASKS)}")


def _classes(value):
    return value if isinstance(value, (tuple, list)) else [value]


def set_everywhere(config, name, value):
    """Sets a field on a configuration and on those inside it."""
    for part in [config, *[v for v in vars(config).values() if hasattr(v, "to_dict") and hasattr(v, "model_type")]]:
        if hasattr(part, name):
            setattr(part, name, value)


def build(torch, transformers, request):
    config = configuration(transformers, request["config"])
    task = task_of(transformers, config, request.get("task"))
    auto = getattr(transformers, AUTO[task])
    if type(config) not in auto._model_mapping:
        raise Refused(f"transformers has no {AUTO[task]} of {config.model_type}")
    kwargs = {"attn_implementation": request["attn"]} if request.get("attn") else {}
    kwargs["dtype" if transformers.__version__ >= "4.56" else "torch_dtype"] = getattr(torch, WORDS[request.get("param_dtype") or "fp32"])
    with torch.device("meta"), registering(torch) as registered:
        model = auto.from_config(config, **kwargs)
    model.train()
    set_everywhere(model.config, "use_cache", bool(request.get("use_cache")))
    return config, task, model, created(model, registered)


@contextlib.contextmanager
def registering(torch):
    """Lists what modules register, in order: (module, name, tensor)."""
    Module, found = torch.nn.Module, []
    originals = Module.register_parameter, Module.register_buffer

    def noting(original):
        def register(module, name, tensor, *args, **kwargs):
            original(module, name, tensor, *args, **kwargs)
            if isinstance(tensor, torch.Tensor):
                found.append((module, name, tensor))

        return register

    Module.register_parameter, Module.register_buffer = map(noting, originals)
    try:
        yield found
    finally:
        Module.register_parameter, Module.register_buffer = originals


def created(model, registered):
    """Parameters and buffers in the order they are made, as [name, elements, bytes of one]; what has given its place to another (tied weights) has no name."""
    paths = {id(m): n for n, m in model.named_modules()}
    names = {n for n, _ in model.named_parameters()} | {n for n, _ in model.named_buffers()}
    out, met = [], set()
    for module, name, tensor in registered:
        full = ".".join(filter(None, [paths.get(id(module), "?"), name]))
        now = module._parameters.get(name, module._buffers.get(name))
        lives = full in names and full not in met and now is not None and now.shape == tensor.shape and id(module) in paths
        met.add(full)
        out.append([full if lives else "", tensor.numel(), (now if lives else tensor).element_size()])
    return out


def without_data(torch, fake, model):
    """The model with tensors that believe they lie on a GPU; nothing is computed for gradients, which the reader of the graph does itself."""
    changed = {}

    def moved(t):
        if id(t) not in changed:
            made = torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="cuda")
            changed[id(t)] = (torch.nn.Parameter(made, requires_grad=False) if isinstance(t, torch.nn.Parameter) else made, t)
        return changed[id(t)][0]

    with fake:
        for m in model.modules():
            for held in (m._parameters, m._buffers):
                for name, t in held.items():
                    if t is not None:
                        held[name] = moved(t)
            for name, t in list(vars(m).items()):
                if isinstance(t, torch.Tensor):
                    setattr(m, name, moved(t))


def batch(torch, fake, config, model, task, size, dtype):
    """The inputs of one training step: what the tasks' usual scripts give."""
    ids = lambda *shape: torch.empty(*shape, dtype=torch.int64, device="cuda")
    with fake:
        b = size["batch"]
        if task == "causal-lm":
            x = ids(b, size["seq"])
            return {"input_ids": x, "labels": x}
        if task in ("masked-lm", "token-cls"):
            return {"input_ids": ids(b, size["seq"]), "labels": ids(b, size["seq"])}
        if task == "seq-cls":
            return {"input_ids": ids(b, size["seq"]), "labels": ids(b)}
        if task == "seq2seq-lm":
            return {"input_ids": ids(b, size["seq"]), "labels": ids(b, size["target_seq"])}
        if task == "image-cls":
            channels = getattr(config, "num_channels", None) or getattr(getattr(config, "vision_config", None), "num_channels", None) or 3
            return {"pixel_values": torch.empty(b, channels, size["image"], size["image"], dtype=dtype, device="cuda"), "labels": ids(b)}
        if task == "speech-seq2seq":
            bins = getattr(config, "num_mel_bins", None) or getattr(config, "input_feat_per_channel", 80)
            return {"input_features": torch.empty(b, bins, size["frames"], dtype=dtype, device="cuda"), "labels": ids(b, size["target_seq"])}
    raise Refused(f"no inputs are known for task {task}")


@contextlib.contextmanager
def as_running(torch, transformers):
    """Modelling code decides as it does on a GPU, not as it does while it is being traced."""
    undo = []

    def put(module, name, value):
        if hasattr(module, name):
            undo.append((module, name, getattr(module, name)))
            setattr(module, name, value)

    no = lambda *args, **kwargs: False
    import transformers.masking_utils as masks
    put(masks, "is_tracing", no)
    put(masks, "find_packed_sequence_indices", lambda *args, **kwargs: None)
    for module in [m for n, m in list(sys.modules.items()) if n.startswith("transformers.") and "is_tracing" in vars(m)]:
        put(module, "is_tracing", no)
    put(transformers.PreTrainedModel, "warn_if_padding_and_no_attention_mask", lambda *args, **kwargs: None)
    put(torch.compiler, "is_compiling", no)
    put(torch.compiler, "is_exporting", no)
    put(torch.cuda, "get_device_capability", lambda *args: (9, 0))
    data = torch.Tensor.data  # no operator of its own, so that no gradient would seem to stop there
    put(torch.Tensor, "data", property(lambda t: t.detach(), data.__set__))
    try:
        yield
    finally:
        for module, name, value in reversed(undo):
            setattr(module, name, value)


OPEN = {"causal-lm": ("batch", "seq"), "masked-lm": ("batch", "seq"), "seq-cls": ("batch", "seq"), "token-cls": ("batch", "seq"),
        "seq2seq-lm": ("batch", "seq", "target_seq"), "image-cls": ("batch",), "speech-seq2seq": ("batch", "target_seq")}


def sizes_of(request, symbols, corners=False):
    """Sizes to run at: three that differ in everything, or all corners of the symbols' ranges and a check inside."""
    base = {k: v for k, v in request.items() if k in ("batch", "seq", "target_seq", "image", "frames") and v}
    ends = {s: ([2, 3, 5] if s == "batch" else [base[s], max(base[s] // 2 + 1, 2), max(base[s] * 3 // 4, 3)]) for s in symbols}
    if any(len(set(v)) < 3 for v in ends.values()):
        raise ValueError("too short to be left open")
    if not symbols:
        return [base]
    if not corners:
        return [dict(base, **{s: ends[s][i] for s in symbols}) for i in range(3)]
    out = [dict(base, **{s: ends[s][0] for s in symbols})]
    for s in symbols:
        out += [dict(o, **{s: ends[s][1]}) for o in out]
    out.append(dict(base, **{s: ends[s][2] for s in symbols}))
    return out


def describe(request):
    import torch
    import transformers
    from torch._subclasses.fake_tensor import FakeTensorMode

    from . import _forward, _shapes

    _shapes.install(torch)
    transformers.logging.set_verbosity_error()
    with as_running(torch, transformers):
        config, task, model, made = build(torch, transformers, request)
        fake = FakeTensorMode(allow_non_fake_inputs=True)
        without_data(torch, fake, model)
        dtype = next((p.dtype for p in model.parameters()), torch.float32)
        autocast = getattr(torch, WORDS[request["autocast"]]) if request.get("autocast") else None
        about = {
            "torch": torch.__version__, "transformers": transformers.__version__, "class": type(model).__name__, "module": type(model).__module__, "task": task,
            "created": made,
            "checkpoints": [n for n, m in model.named_modules() if any(c.__name__ == "GradientCheckpointingLayer" for c in type(m).__mro__)],
        }
        done = {}

        def trace(size):
            key = tuple(sorted(size.items()))
            if key not in done:
                done[key] = _forward.run(torch, fake, model, batch(torch, fake, config, model, task, size, dtype), autocast)
            return done[key]

        problem = None
        for symbols, corners in ((OPEN[task], False), (OPEN[task], True), (("batch",), False), ((), False)):
            try:
                sizes = sizes_of(request, symbols, corners)
                about["open"] = list(symbols)
                return _forward.document([trace(s) for s in sizes], sizes, symbols, about)
            except (_forward.Differs, ValueError) as failure:
                problem = failure
        raise problem


def main(request, out):
    with open(request) as f:
        asked = json.load(f)
    try:
        text = describe(asked)
    except Refused as reason:
        return fail(out, str(reason))
    except ImportError as missing:
        return fail(out, f"{missing}; install it in this Python, or name another with --python")
    except Exception as problem:
        import traceback

        traceback.print_exc()
        return fail(out, f"{type(problem).__name__}: {problem}")
    with open(out, "wb") as f:
        f.write(gzip.compress(text.encode(), 6, mtime=0))
    return 0


def fail(out, why):
    with open(out + ".failure", "w") as f:
        json.dump({"why": why[:2000]}, f)
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
