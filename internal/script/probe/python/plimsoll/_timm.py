"""Models of timm, by name or by the config.json that timm writes to the hub ("architecture", "model_args", "pretrained_cfg"): trained to tell images apart, as timm's train.py does."""
import inspect

from . import _forward, _models, _packages

CLASSES = 1000


class Model(_packages.Subject):
    task = "image-cls"

    def __init__(self, torch, request):
        import timm

        self.torch, config = torch, request["config"]
        self.version = f"timm {timm.__version__}"
        name, own = known(timm, config["architecture"]), dict(config.get("model_args") or {})
        classes = config.get("num_classes", own.pop("num_classes", None))
        stored = config.get("pretrained_cfg") or {}
        if classes is None:
            classes = stored.get("num_classes")
        if classes is not None:
            own["num_classes"] = int(classes)
        if config.get("global_pool") is not None:
            own["global_pool"] = config["global_pool"]
        side = request.get("image")
        self.model, registered = self.build(timm, name, own, side)
        self.model.to(getattr(torch, _models.WORDS[request.get("param_dtype") or "fp32"]))
        self.created = _models.created(self.model, registered)
        self.cls = type(self.model)
        cfg = getattr(self.model, "pretrained_cfg", None) or {}
        size = stored.get("input_size") or cfg.get("input_size") or (3, 224, 224)
        self.size = (int(size[0]), side or int(size[1]), side or int(size[2]))
        self.size = (self.channels(own), *self.size[1:])

    def build(self, timm, name, own, side):
        """The model, for images of another side where it has to know."""
        problem = None
        for sized in ([{"img_size": side}, {}] if side else [{}]):
            for given in ({**own, **sized}, {k: v for k, v in {**own, **sized}.items() if k != "global_pool"}):
                try:
                    return _packages.made(self.torch, lambda: timm.create_model(name, pretrained=False, **given))
                except TypeError as failure:  # a model that does not ask for it
                    problem = problem or failure
        raise _models.Refused(f"timm's {name} cannot be built from this configuration: {problem}")

    def channels(self, own):
        return int(own.get("in_chans") or (getattr(self.model, "pretrained_cfg", None) or {}).get("input_size", (3,))[0])

    def given(self, sizes, choice):
        batch = sizes["batch"]
        return {"x": self.torch.empty(batch, *self.size, dtype=self.dtype, device="cuda"), "labels": self.torch.empty(batch, dtype=self.torch.int64, device="cuda")}

    def step(self, given):
        out = self.model(given["x"])
        first = _forward.numbers(self.torch, out)[0]
        if first.dim() == 2 and getattr(self.model, "num_classes", 0) == first.shape[1]:
            return out, self.torch.nn.functional.cross_entropy(first, given["labels"]), "loss"
        self.objective = "output"
        return out, first.mean(), "output"

    objective = "loss"

    def checkpointing(self):
        return getattr(self.model, "set_grad_checkpointing", None)

    def notes(self, sizes, choice):
        out = [f"images are {self.size[1]} × {self.size[2]} pixels; --image sets another side"]
        if self.objective != "loss":
            out.append(f"{self.cls.__name__} has no classes here: the step trains the mean of its output")
        return out


def known(timm, name):
    """The name of a model that timm has, without the words of the hub around it; refused with the nearest one."""
    import difflib

    name = name.removeprefix("hf-hub:").removeprefix("hf_hub:").removeprefix("timm:").removeprefix("timm/")
    plain = name.partition(".")[0]
    if timm.is_model(name) or timm.is_model(plain):
        return name if timm.is_model(name) and not name.partition(".")[2] or name in timm.list_pretrained(plain + "*") else plain
    near = difflib.get_close_matches(plain, timm.list_models(), 3, 0.6)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    raise _models.Refused(f"timm {timm.__version__} has no model {plain!r}{hint}")
