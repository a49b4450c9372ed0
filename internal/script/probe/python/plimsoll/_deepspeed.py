"""One rank of DeepSpeed's engine, as a trace follows it: what deepspeed 0.19 allocates for ZeRO stages 0 to 2 beside the model
(deepspeed/runtime/zero/stage_1_and_2.py: __init__, setup_buckets, independent_gradient_partition_epilogue, step; deepspeed/runtime/bf16_optimizer.py).

Weights are cast to the configured type. Each rank keeps the master weights and the optimizer's state of its part, in fp32; gradients go through a bucket, which lives
as long as backward, into the rank's part of them. For the step they are cast to fp32.
"""
import json
import os

from . import _graph

BUCKET = 500_000_000  # elements (deepspeed/runtime/zero/config.py, reduce_bucket_size)


def install(trace, refuse):
    """A function for when deepspeed is imported."""

    def change(module):
        def initialize(args=None, model=None, optimizer=None, model_parameters=None, training_data=None, lr_scheduler=None, config=None, config_params=None, **kwargs):
            config = _read(config or config_params or getattr(args, "deepspeed_config", None))
            if _stage(config) > 2 or model is None:
                refuse()
            engine = Engine(trace, model, optimizer, lr_scheduler, config, list(model_parameters) if model_parameters is not None else None)
            loader = None
            if training_data is not None:
                loader = trace.torch.utils.data.DataLoader(training_data, batch_size=engine.train_micro_batch_size_per_gpu())
            return engine, engine.optimizer, loader, engine.lr_scheduler

        module.initialize = initialize
        module.init_distributed = lambda *args, **kwargs: None

    return change


def _read(config):
    if isinstance(config, (str, os.PathLike)):
        with open(config) as f:
            return json.load(f)
    return config or {}


def _stage(config):
    return int((config.get("zero_optimization") or {}).get("stage", 0))


def _dtype(torch, config):
    for name, kind in (("bf16", torch.bfloat16), ("bfloat16", torch.bfloat16), ("fp16", torch.float16)):
        if (config.get(name) or {}).get("enabled"):
            return kind
    return torch.float32


class Engine:
    """What deepspeed.initialize returns."""

    def __init__(self, trace, model, optimizer, lr_scheduler, config, parameters):
        torch = trace.torch
        self.trace, self.config, self.stage = trace, config, _stage(config)
        self.dtype, self.ranks = _dtype(torch, config), max(1, int(os.environ.get("WORLD_SIZE") or 1))
        self.module = model.to(self.dtype).to("cuda")
        self.device, self.lr_scheduler = torch.device("cuda", 0), lr_scheduler
        self.global_steps = self.micro_steps = 0
        self.accumulate = int(config.get("gradient_accumulation_steps") or 1)
        self.partial = None  # the rank's part of the gradients
        trained = [p for p in self.module.parameters() if p.requires_grad]
        self.optimizer = _optimizer(torch, trace, self, optimizer, sum(p.numel() for p in trained))
        trace.note(f"DeepSpeed's engine (ZeRO stage {self.stage}, one of {self.ranks} ranks) is followed by what its source allocates; this was not measured on a card")

    def __call__(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    forward = __call__

    def __getattr__(self, name):
        return getattr(self.__dict__["module"], name)

    def part(self, kind, category, count=None):
        with self.trace.recording(category):
            return self.trace.torch.empty(-(-(count or self.optimizer.count) // (self.ranks if self.stage else 1)), dtype=kind)

    def backward(self, loss, **kwargs):
        bucket = self.bucket() if self.stage else None
        (loss / self.accumulate).backward()
        if self.stage == 2 or self.stage == 1 and self.is_gradient_accumulation_boundary():
            if self.partial is None:
                self.partial = self.part(self.dtype, "gradients")
            for p in self.module.parameters():
                p.grad = None
        del bucket
        return loss

    def bucket(self):
        zero = self.config.get("zero_optimization") or {}
        if zero.get("contiguous_gradients") is False:
            return None
        with self.trace.recording("gradients"):
            return [self.trace.torch.empty(int(zero.get("reduce_bucket_size") or BUCKET), dtype=self.dtype) for _ in range(2 if zero.get("overlap_comm") else 1)]

    def step(self, *args, **kwargs):
        self.micro_steps += 1
        if self.micro_steps % self.accumulate:
            return
        self.optimizer.step()
        self.partial = None
        for p in self.module.parameters():
            p.grad = None
        self.global_steps += 1
        if self.lr_scheduler is not None:
            self.lr_scheduler.step()

    def is_gradient_accumulation_boundary(self):
        return (self.micro_steps + 1) % self.accumulate == 0

    def gradient_accumulation_steps(self):
        return self.accumulate

    def train_micro_batch_size_per_gpu(self):
        micro, whole = self.config.get("train_micro_batch_size_per_gpu"), self.config.get("train_batch_size")
        return int(micro or max(1, int(whole or 1) // (self.accumulate * self.ranks)))

    def train_batch_size(self):
        return self.train_micro_batch_size_per_gpu() * self.accumulate * self.ranks

    def train(self, mode=True):
        self.module.train(mode)
        return self

    def eval(self):
        return self.train(False)

    def zero_grad(self, *args, **kwargs):
        for p in self.module.parameters():
            p.grad = None

    def save_checkpoint(self, *args, **kwargs):
        return True

    def load_checkpoint(self, *args, **kwargs):
        return None, {}

    def get_global_grad_norm(self):
        return 1.0

    def get_lr(self):
        return [group.get("lr", 0.0) for group in self.optimizer.param_groups]


def _optimizer(torch, trace, engine, given, count):
    """An optimizer over the rank's part: masters in fp32 where weights are narrower or parts are kept, state made in the first step."""
    kind = _graph.optimizer_name(given) if given is not None and hasattr(given, "param_groups") else str((engine.config.get("optimizer") or {}).get("type", "adamw")).lower()
    states = _graph.STATES.get(kind.partition("-")[0], 2)
    group = given.param_groups[0] if given is not None and hasattr(given, "param_groups") else (engine.config.get("optimizer") or {}).get("params") or {}

    class Part(torch.optim.Optimizer):
        def __init__(self):
            self.count = count
            super().__init__([torch.nn.Parameter(torch.empty(0))], {"lr": group.get("lr", 1e-3)})
            engine.optimizer = self
            self.masters = engine.part(torch.float32, "optimizer") if engine.stage or engine.dtype is not torch.float32 else None
            # BF16_Optimizer keeps gradients in fp32 from the start (bf16_optimizer.py, fp32_groups_gradients_flat).
            self.wide = engine.part(torch.float32, "gradients") if engine.stage == 0 and engine.dtype is torch.bfloat16 else None
            self.moments = None

        def step(self, closure=None):
            if self.moments is None:
                self.moments = [engine.part(torch.float32, "optimizer") for _ in range(states)]
            if self.masters is not None and self.wide is None:
                wide = engine.part(torch.float32, "gradients")
                del wide

    return Part()
