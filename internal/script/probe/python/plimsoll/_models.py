"""Builds a model of transformers from its configuration, without weights, and writes its training step down (see _forward).

Requests come from _serve: JSON with config, task, sizes, param_dtype, autocast, attn, use_cache, routing.
"""
import contextlib
import os
import sys

AUTO = {
    "causal-lm": "AutoModelForCausalLM", "masked-lm": "AutoModelForMaskedLM", "seq-cls": "AutoModelForSequenceClassification",
    "token-cls": "AutoModelForTokenClassification", "seq2seq-lm": "AutoModelForSeq2SeqLM", "image-cls": "AutoModelForImageClassification",
    "speech-seq2seq": "AutoModelForSpeechSeq2Seq", "image-text": "AutoModelForImageTextToText", "ctc": "AutoModelForCTC",
    "audio-cls": "AutoModelForAudioClassification", "video-cls": "AutoModelForVideoClassification", "semantic-seg": "AutoModelForSemanticSegmentation",
    "question-answering": "AutoModelForQuestionAnswering",
}
TASKS = list(AUTO)
ORDER = ["causal-lm", "seq2seq-lm", "masked-lm", "image-cls", "speech-seq2seq", "image-text", "ctc", "audio-cls", "video-cls", "semantic-seg", "seq-cls", "token-cls",
         "question-answering"]  # which one is meant where nobody says
USED_AS = {"layoutxlm": "layoutlmv2"}  # types that have tokenizers of their own alone: https://huggingface.co/docs/transformers/model_doc/layoutxlm
FEATURES = "features"  # a model without any of these heads, or with a loss of its own kind: the mean of its first output is taken
WORDS = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


class Refused(Exception):
    """A model that cannot be described, with the reason for the user."""


def configuration(transformers, given):
    import copy

    kind = given.get("model_type")
    try:
        cls = transformers.CONFIG_MAPPING[kind]
    except KeyError:
        if given.get("auto_map"):
            raise Refused(f"its modelling code lies in its own repository (auto_map), which is not run here, and transformers {transformers.__version__} has no model_type {kind!r}")
        raise Refused(f"transformers {transformers.__version__} has no model_type {kind!r}; a newer release may have it")
    added = set(transformers.PreTrainedConfig().to_dict()) | {"_name_or_path", "output_attentions", "model_type"}
    plain = lambda part: {n: x for n, x in part.items() if n not in added} if isinstance(part, dict) else part
    ways = (  # a copy each, because some take parts out of what they are given
        lambda: cls.from_dict(copy.deepcopy(given)),
        lambda: cls.from_dict({k: plain(v) for k, v in copy.deepcopy(given).items()}),  # parts that refuse the fields which to_dict itself adds to them
        lambda: cls(**copy.deepcopy(given)),  # Nougat: from_dict writes it to the log, which asks for a default that there is none of
    )
    problem = None
    for way in ways:
        try:
            return way()
        except (ValueError, TypeError, KeyError) as failure:
            problem = problem or failure
    raise problem


def heads(transformers, config, wanted, seen=False):
    """(task, class) to try, in order: the one asked for, else the one the file names, else those the family has, else the model without a head; seen: samples have images."""
    if wanted and wanted != FEATURES:
        mapping = getattr(transformers, AUTO[wanted])._model_mapping
        if wanted == "causal-lm" and type(config) not in mapping:
            mapping = getattr(transformers, AUTO["image-text"])._model_mapping
        if type(config) not in mapping:
            raise Refused(f"transformers has no {AUTO[wanted]} of {config.model_type}")
        return [(wanted, _classes(mapping[type(config)])[0])]
    out, named = [], " ".join(config.architectures or []).split()
    order = sorted(ORDER, key=lambda task: task != "image-text") if seen else ORDER
    for task in order if wanted != FEATURES else []:
        auto = getattr(transformers, AUTO[task], None)
        if auto is not None and type(config) in auto._model_mapping:
            out += [(task, c) for c in _classes(auto._model_mapping[type(config)])]
    out.sort(key=lambda head: head[1].__name__ not in named)
    plain = without_head(transformers, config)
    mine = [(FEATURES, c) for c in plain if c.__name__ in named]
    if mine and not any(c.__name__ in named for _, c in out):
        return mine + out
    out += [(FEATURES, c) for c in plain]
    if not out:
        if getattr(config, "encoder", None) is not None and getattr(config, "decoder", None) is not None:
            raise Refused(f"transformers has no model of {config.model_type}: models with such a configuration are of the type vision-encoder-decoder, which can be predicted")
        raise Refused(f"{config.model_type} is no model by itself: transformers has only its configuration" + instead(transformers, config))
    return out


def instead(transformers, config):
    """What to predict in place of a part: the models whose configurations hold one of its kind, as far as its own module or those of its name say."""
    if config.model_type in USED_AS:
        return f"; its checkpoints are of model_type {USED_AS[config.model_type]}: predict that"
    names = wholes(transformers, config)
    if not names:  # a part that its whole names by its type alone, or a variant of another family
        kind = config.model_type
        whole = [k for k in transformers.CONFIG_MAPPING.keys() if kind.startswith(f"{k}_")]
        names = [max(whole, key=len)] if whole else []
    return f"; predict {' or '.join(names)}, which it is a part of" if names else ""


def wholes(transformers, config):
    """The model types whose configurations hold one of this kind."""
    import importlib

    module = importlib.import_module(type(config).__module__)
    around = [c for c in vars(module).values() if isinstance(c, type) and issubclass(c, transformers.PreTrainedConfig) and type(config) in (c.sub_configs or {}).values()]
    return [c.model_type for c in around if c.model_type in transformers.CONFIG_MAPPING]


def untrained(torch, transformers, config, cls):
    """Refuses models that have no training step: without a forward pass of their own, or with one that computes no gradients."""
    if cls.forward is torch.nn.Module.forward and issubclass(cls, transformers.GenerationMixin):
        raise Refused(f"{cls.__name__} has no forward pass of its own: it generates with several models that are trained one at a time; predict the script that trains one, as in plimsoll predict -- python train.py")
    if cls.forward is torch.nn.Module.forward:
        raise Refused(f"{cls.__name__} has no forward pass of its own: its code is called by parts from the model around it{instead(transformers, config)}")
    mode = gradient_free(torch, cls.forward)
    if mode:
        name = config.model_type.removesuffix("_video")
        other = f"; predict {name}, its model of single images, to train it" if name != config.model_type and name in transformers.CONFIG_MAPPING else ""
        raise Refused(f"{cls.__name__} is for inference alone: its forward pass runs under torch.{mode}{other}")


def gradient_free(torch, forward):
    """The decorator of a function that switches gradients off, "" where it has none."""
    while forward is not None:
        for cell in getattr(forward, "__closure__", None) or ():
            with contextlib.suppress(ValueError):  # an empty cell
                held = getattr(cell.cell_contents, "__self__", None)
                if isinstance(held, (torch.inference_mode, torch.no_grad)):
                    return type(held).__name__
        forward = getattr(forward, "__wrapped__", None)
    return ""


def without_head(transformers, config):
    """Classes of a configuration beside those with a head of a known task: AutoModel's, and all that its modelling code has."""
    import importlib
    import pkgutil

    out = []
    if type(config) in transformers.AutoModel._model_mapping:
        with contextlib.suppress(ValueError):  # a name that transformers lists and does not have
            out += _classes(transformers.AutoModel._model_mapping[type(config)])
    folder = type(config).__module__.rpartition(".")[0]
    mine = []
    for info in pkgutil.iter_modules(importlib.import_module(folder).__path__):
        if info.name.startswith("modeling_"):
            try:
                mine += _models_of(transformers, importlib.import_module(f"{folder}.{info.name}"), type(config))
            except ImportError:
                continue
    stem = type(config).__name__.removesuffix("Config")
    mine.sort(key=lambda c: (not c.__name__.startswith(stem), "Backbone" in c.__name__, len(c.__name__)))  # what a head reads is a part
    return list(dict.fromkeys(out + mine))


def _models_of(transformers, module, kind):
    """The models of a module that take configurations of a kind."""
    import inspect

    for name, c in sorted(vars(module).items()):
        if not isinstance(c, type) or not issubclass(c, transformers.PreTrainedModel) or c.__module__ != module.__name__ or name.endswith("PreTrainedModel"):
            continue
        given = inspect.signature(c.__init__).parameters.get("config")
        said = given.annotation if given is not None else None
        any_kind = (None, inspect.Parameter.empty, transformers.PreTrainedConfig)
        told = (said, *getattr(said, "__args__", ()))
        if kind in told or said == kind.__name__ or getattr(c, "config_class", None) is kind and (said in any_kind or transformers.PreTrainedConfig in told):
            yield c


def _classes(value):
    return value if isinstance(value, (tuple, list)) else [value]


def set_everywhere(config, name, value):
    """Sets a field on a configuration and on those inside it."""
    for part in [config, *[v for v in vars(config).values() if hasattr(v, "to_dict") and hasattr(v, "model_type")]]:
        if hasattr(part, name):
            setattr(part, name, value)


def build(torch, transformers, request, config, cls):
    from . import _flash, _numbers

    kwargs = {"attn_implementation": request["attn"]} if request.get("attn") else {}
    if request.get("attn") == _flash.NAME:
        _flash.equip(cls)
    kwargs["dtype" if transformers.__version__ >= "4.56" else "torch_dtype"] = getattr(torch, WORDS[request.get("param_dtype") or "fp32"])
    with torch.device("meta"), registering(torch) as registered, _numbers.known(torch, lambda t: t.is_meta):
        model = cls._from_config(config, **kwargs)
    model.train()
    set_everywhere(model.config, "use_cache", bool(request.get("use_cache")))
    return model, created(model, registered)


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
    from . import _numbers

    changed = {}

    def moved(t):
        if id(t) not in changed:
            made = torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="cuda")
            if hasattr(t, _numbers.VALUE):
                setattr(made, _numbers.VALUE, getattr(t, _numbers.VALUE))
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


@contextlib.contextmanager
def as_running(torch, transformers):
    """Modelling code decides as it does on a GPU, not as it does while it is being traced."""
    from . import _flash, _shapes

    undo = []

    def put(module, name, value):
        if hasattr(module, name):
            undo.append((module, name, getattr(module, name)))
            setattr(module, name, value)

    no = lambda *args, **kwargs: False
    if transformers is not None:
        import transformers.masking_utils as masks
        put(masks, "is_tracing", no)
        put(masks, "find_packed_sequence_indices", lambda *args, **kwargs: None)
        put(masks, "_vmap_expansion_sdpa", lambda function: lambda *at: function(*masks._non_vmap_expansion_sdpa(*at)).expand([len(i) for i in at]))  # the same sizes
        for module in [m for n, m in list(sys.modules.items()) if n.startswith("transformers.") and "is_tracing" in vars(m)]:
            put(module, "is_tracing", no)
        put(transformers.PreTrainedConfig, "__repr__", object.__repr__)  # from_dict writes it to a log, for which the family's default is built: that of EdgeTAM loads another one from the network
        put(transformers.PreTrainedModel, "warn_if_padding_and_no_attention_mask", lambda *args, **kwargs: None)
        _flash.install(torch, transformers, put)
    put(torch.compiler, "is_compiling", no)
    put(torch.compiler, "is_exporting", no)
    put(torch.cuda, "get_device_capability", lambda *args: (9, 0))
    _shapes.recurrent(torch, put)
    import random

    import numpy
    put(numpy.random, "random", lambda size=None, now=numpy.random.random: now(size) if size is not None else 0.999)  # no layer is dropped
    put(random, "uniform", lambda low, high: high - (high - low) / 1000)
    apply = torch.nn.Module._apply  # a module that is moved to where it is stays as it is: tensors without data cannot be swapped

    def _apply(module, fn, recurse=True):
        held = [t for m in module.modules() for t in (*m._parameters.values(), *m._buffers.values()) if t is not None]
        return module if all(fn(t) is t for t in held) else apply(module, fn, recurse)

    put(torch.nn.Module, "_apply", _apply)
    data = torch.Tensor.data  # no operator of its own, so that no gradient would seem to stop there
    put(torch.Tensor, "data", property(lambda t: t.detach(), data.__set__))
    try:
        yield
    finally:
        for module, name, value in reversed(undo):
            setattr(module, name, value)


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


@contextlib.contextmanager
def imported():
    """What was imported is left out of what the garbage collector looks through: it runs before every trace, and there may be many until one fits."""
    import gc

    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def describe(request):
    import copy

    import torch
    import transformers

    from . import _functions, _inputs, _shapes

    _shapes.install(torch)
    torch.jit._state.disable()  # functions that torch.jit.script compiles run as they are written, which they do in the first steps of a run, too: a compiler would ask for a GPU
    transformers.logging.set_verbosity_error()
    problems = []
    with as_running(torch, transformers), imported():
        config = configuration(transformers, request["config"])
        if getattr(config, "thinker_config", None) is not None:  # Qwen-Omni: the part that reads and answers is the one that is trained; the whole has no forward pass
            config = config.thinker_config
        for task, cls in heads(transformers, config, request.get("task"), bool(request.get("image"))):
            try:
                return described(torch, transformers, request, copy.deepcopy(config), task, cls)
            except _inputs.TooShort:  # what asks for fewer tokens is another image
                raise
            except Exception as failure:
                problems.append(Refused(str(failure)) if isinstance(failure, _functions.Hidden) else failure)
        if any("shape '[" in str(p) for failure in problems for p in getattr(failure, "tried", ())):
            alone(torch, transformers, request, config)
    failure = next((p for p in problems if isinstance(p, _inputs.Missing)), problems[0])
    if isinstance(failure, (Refused, _inputs.Missing, ImportError)) or not wholes(transformers, config):
        raise failure
    raise Refused(f"{type(failure).__name__}: {failure}{instead(transformers, config)}") from failure


def alone(torch, transformers, request, config):
    """Refuses a batch where a model's code runs with one sample."""
    import copy

    if (request.get("batch") or 1) == 1:
        return
    task, cls = heads(transformers, config, request.get("task"), bool(request.get("image")))[0]
    try:
        described(torch, transformers, {**request, "batch": 1}, copy.deepcopy(config), task, cls)
    except Exception:  # it does not run at all, for the reason that is known already
        return
    raise Refused(f"the code of {cls.__name__} takes one sample at a time; set --batch 1")


def described(torch, transformers, request, config, task, cls):
    """The graph of one class of a configuration."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    from . import _fields, _forward, _inputs, _layers

    untrained(torch, transformers, config, cls)
    try:
        model, made = build(torch, transformers, request, config, cls)
    except ImportError:
        raise
    except Exception as failure:
        raise Refused(f"{cls.__name__} cannot be built from this configuration: {type(failure).__name__}: {failure}") from failure
    frozen = [n for n, p in model.named_parameters() if not p.requires_grad]  # such as tables of sines
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    without_data(torch, fake, model)
    dtype = next((p.dtype for p in model.parameters() if p.dtype.is_floating_point), torch.float32)
    autocast = getattr(torch, WORDS[request["autocast"]]) if request.get("autocast") else None
    chosen, done, used = None, {}, set()

    placeholders = {}  # by inputs: tokens that stand for the image of a sample, which the model's code counts

    def run(size, inputs, variant):
        with fake:
            sizes = _inputs.Sizes(size)
            maker = _inputs.Maker(torch, config, model, sizes, dtype, variant, placeholders.get((inputs, variant), 0))
            given = maker.inputs(inputs)
            given.update(maker.labels(task, given))
        try:
            trace = _forward.run(torch, fake, model, given, autocast, request.get("routing") == "worst")
        except Exception as failure:
            count = image_tokens(failure, size["batch"], size.get("seq", 0), _inputs.read(_fields.text_of(config), "hidden_size", default=1, parts=False))
            if not count or (inputs, variant) in placeholders:
                raise
            placeholders[inputs, variant] = count
            return run(size, inputs, variant)
        done[tuple(sorted(size.items()))] = trace
        used.update(sizes.used)
        return trace

    def trace(size):
        return done.get(tuple(sorted(size.items()))) or in_short(whole, done, size, lambda: run(size, *chosen)) or run(size, *chosen)

    base = sizes_of(request, ("batch",))[0]
    with fake:
        choices = _inputs.Maker(torch, config, model, _inputs.Sizes(base), dtype).choices()
    problems = []
    for size, choice in [(base, c) for c in choices] + [(sizes_of(request, ())[0], c) for c in choices if request.get("batch") == 1]:  # some code takes one sample at a time
        try:
            run(size, *choice)
            chosen = choice
            break
        except _inputs.TooShort:
            raise
        except Exception as failure:
            problems.append(failure)
    if chosen is None:
        refuses_targets(torch, fake, model)
        if choices and "input_ids" in choices[0][0]:
            too_long(config, base)
        failure = next((p for p in problems if isinstance(p, _inputs.Missing)), problems[0] if problems else Refused(f"nothing is known about the inputs of {cls.__name__}"))
        failure.tried = problems
        raise failure
    names, first = chosen[0], next(iter(done.values()))
    if request.get("image") and getattr(config, "vision_config", None) is not None and "pixel_values" not in names:
        raise Refused(f"{cls.__name__} takes no images; leave --image out to predict a batch of text alone")
    whole = _layers.Shorter(torch, model, first)
    about = {
        "torch": torch.__version__, "transformers": transformers.__version__, "class": cls.__name__, "module": cls.__module__, "task": task,
        "created": made, "frozen": frozen, "inputs": list(names), "variant": chosen[1], "tokens": placeholders.get(chosen, 0),
        "notes": notes(task, cls, config, first, names, placeholders.get(chosen, 0), chosen[1]),
        "checkpoints": [n for n, m in model.named_modules() if any(c.__name__ == "GradientCheckpointingLayer" for c in type(m).__mro__)],
        **linears(torch, transformers, model),
    }
    return at_any_size(request, used, trace, about)


def in_short(whole, done, size, run):
    """The trace of a model at another size, from a run without the layers that are alike; None where that cannot be told."""
    key = tuple(sorted(size.items()))
    if not whole.dropped:
        return None
    try:
        with whole.shortened():
            short = run()
        done[key] = whole.written(short)
    except Exception:  # layers that are alike at one size only, or code that counts them
        done.pop(key, None)
    return done.get(key)


def at_any_size(request, used, trace, about):
    """The graph of a step, open in as many of the sizes that its inputs use as its operators allow."""
    from . import _forward

    opened = tuple(s for s in ("batch", "seq", "target_seq") if s in used and request.get(s))
    problem = None
    for symbols, corners in ((opened, False), (opened, True), (("batch",), False), ((), False)):
        try:
            sizes = sizes_of(request, symbols, corners)
            about["open"] = list(symbols)
            return _forward.document([trace(s) for s in sizes], sizes, symbols, about)
        except (_forward.Differs, ValueError, RuntimeError) as failure:
            problem = problem or failure
    raise problem


def refuses_targets(torch, fake, model):
    """Says so where a model's code has no training (VITS): it refuses any targets."""
    import inspect

    if "labels" not in inspect.signature(model.forward).parameters:
        return
    try:
        with fake, torch.no_grad():
            model(labels=torch.empty(1, 1, dtype=torch.int64, device="cuda"))
    except NotImplementedError as reason:
        raise Refused(f"transformers cannot train {type(model).__name__}: {reason}") from reason
    except Exception:  # it wants other inputs first, which were tried
        return


def linears(torch, transformers, model):
    """The modules that PEFT puts adapters beside: linear layers (all-linear), the one among them that gives the output, and what it takes by name alone.

    https://github.com/huggingface/peft/blob/v0.18.0/src/peft/tuners/tuners_utils.py, _maybe_include_all_linear_layers
    https://github.com/huggingface/peft/blob/v0.18.0/src/peft/tuners/lora/layer.py, dispatch_default
    """
    turned = transformers.pytorch_utils.Conv1D if transformers is not None else ()
    named, names = list(model.named_modules()), {id(p): n for n, p in model.named_parameters()}
    weights = {n: names.get(id(m.weight)) for n, m in named if isinstance(m, (torch.nn.Linear, turned))}
    try:
        out = model.get_output_embeddings()
    except Exception:  # models that have none say so in many ways
        out = None
    return {
        "linears": [n for n, m in named if isinstance(m, (torch.nn.Linear, turned))], "turned": [n for n, m in named if isinstance(m, turned)],
        "head": next((n for n, m in named if m is out), "") if out is not None else "", "stacked": stacked(model) if transformers is not None else [],
        "embeddings": embeddings(transformers, model) if transformers is not None else [], "tied": {n: w for n, w in weights.items() if w and w != f"{n}.weight"},
        "convs": [{"name": n, "groups": m.groups} for n, m in named if isinstance(m, (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)) and "weight" in m._parameters],
        "tables": [{"name": n, "scaled": hasattr(m, "embed_scale")} for n, m in named if isinstance(m, torch.nn.Embedding)],
    }


def embeddings(transformers, model):
    """The modules whose results require gradients once gradient_checkpointing_enable() was called."""
    if getattr(model, "main_input_name", "") != "input_ids":
        return []
    found = set()
    for m in model.modules():
        if isinstance(m, transformers.PreTrainedModel):
            try:
                found.add(id(m.get_input_embeddings()))
            except Exception:  # parts without any say so in many ways
                continue
    return [n for n, m in model.named_modules() if id(m) in found]


EXPERTS = {  # what the targets of adapters mean in models whose experts are one parameter since transformers 5: parameter, names, how many are joined in it
    "mixtral": {"gate_up_proj": ["w1", "w3"], "down_proj": ["w2"], "gate.weight": ["gate"]},
    "qwen2_moe": {"gate_up_proj": ["gate_proj", "up_proj"], "down_proj": ["down_proj"], "gate.weight": ["gate"]},
}


def stacked(model):
    """The parameters that PEFT adapts as a whole.

    https://github.com/huggingface/peft/blob/v0.19.0/src/peft/utils/transformers_weight_conversion.py, _MOE_TARGET_MODULE_MAPPING
    """
    try:
        from transformers.conversion_mapping import _MODEL_TO_CONVERSION_PATTERN as patterns
    except ImportError:  # transformers 4: experts are linear layers
        return []
    kind = getattr(model.config, "model_type", "")
    rules = EXPERTS.get("mixtral" if kind == "mixtral" else patterns.get(kind), {})
    out = []
    for name, p in model.named_parameters():
        rule = next((r for r in rules if name.endswith("." + r)), None)
        if rule and p.dim() in (2, 3) and (p.dim() == 3) == (rule != "gate.weight"):
            out.append({"name": name, "named": rules[rule], "joined": len(rules[rule])})
    return out


def too_long(config, size):
    """Refuses a sequence that is longer than the model has positions for, where it did not run."""
    from . import _inputs

    most = _inputs.read(config, "max_position_embeddings", "n_positions")
    if isinstance(most, int) and size.get("seq", 0) > most:
        raise Refused(f"seq {size['seq']}: the model has {most} positions (max_position_embeddings); set --seq {most} or less")


def image_tokens(failure, batch, seq, width):
    """How many placeholders of an image a sample should have had, where a model says so (get_placeholder_mask of 77 models of transformers 5.17)."""
    import re

    found = re.search(r"(?:mage features and image tokens|features and placeholder tokens) do not match.*?features:? *(\d+)", str(failure), re.S)
    count, rest = divmod(int(found[1]), batch) if found else (0, 0)
    if count > seq and count % width == 0:  # some count numbers instead of tokens
        count //= width
    return 0 if rest else count


def notes(task, cls, config, trace, names, tokens=0, variant=0):
    """What the user should know about the step that was read."""
    from . import _inputs, _pictures

    out = []
    if "input_ids" in names and "pixel_values" in names:
        resized = " in the size that the model's configuration names" if variant & _inputs.OWN else " in tiles of the size that the model's configuration names" if variant & _inputs.TILES else ""
        seen = "video" if _pictures.films(config, cls.__name__) else "image"
        out.append(f"every sample has one {seen}{resized}" + (f", which takes {tokens} of its tokens" if tokens else ""))
    if trace.objective != "loss":
        out.append(f"{cls.__name__} was run without targets: the step trains the mean of its output{f' ({trace.objective})' if trace.objective else ''}")
    unused = left_out(trace) if task == FEATURES else []
    if unused:
        out.append(f"no part of the step runs {' and '.join(unused)}: the parameters are held, and get no gradient")
    doubt = own_word(cls) if trace.objective != "loss" else ""
    if doubt:
        out.append(f'{cls.__name__} has no loss of its own: its code says "{doubt}"')
    if trace.looped:
        out.append("a loop that the model ends by itself runs as long as its configuration allows: samples that end sooner need less")
    if trace.drawn:
        out.append("sizes that follow from the model's own results, such as how many keypoints it finds, were drawn at random: with trained weights they differ")
    seen = [what for what, part in (("images", "vision_config"), ("sound", "audio_config")) if getattr(config, part, None) is not None]
    if names == ("input_ids",) and seen:
        out.append(f"the batch is text alone: {' and '.join(seen)} in it add their own tokens and activations" + ("; --image 448 gives every sample an image" if "images" in seen else ""))
    return out


def left_out(trace):
    """The parts of a model, by name, none of whose parameters an operator takes."""
    names = {v: name for v, role, name in trace.fixed if role == "parameter"}
    taken = {v for n in trace.nodes for _, (kind, content) in n["args"] for v in (content if kind == "as_optional_tensors" else [content] if kind == "as_tensor" else [])}
    common = os.path.commonprefix([n.split(".")[:-1] for n in names.values()])
    part = lambda name: ".".join(name.split(".")[: len(common) + 1])
    used = {part(name) for v, name in names.items() if v in taken}
    return list(dict.fromkeys(part(name) for name in names.values() if part(name) not in used and part(name) != name))


def own_word(cls):
    """What a model's code says where it is given targets that it cannot be trained with, "" where it says nothing."""
    import inspect
    import re

    try:
        code = inspect.getsource(inspect.unwrap(cls.forward))
    except OSError:  # compiled, or gone
        return ""
    found = re.search(r"""raise \w+\(\s*["']([^"']*(?:[Tt]raining|trainable)[^"']*)""", code)
    return found[1] if found else ""
