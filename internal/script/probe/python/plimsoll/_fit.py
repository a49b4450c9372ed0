"""Carries out a plan that makes a script fit: micro-batches, checkpointing, an optimizer without wide temporaries.

The plan comes as JSON in PLIMSOLL_FIT: {"split": 4, "chunk": 4, "checkpoint": true, "loop_optimizer": true, "autocast": "bf16"}. Each part says in the
notes under "fit" that it took effect; one that this script cannot honour stops the attempt before it trains anything wrong, with the reason.
"""
import json
import os
import sys

from . import _checkpoint, _chunk, _optimizers
from ._frames import script_stack
from ._split import Splitter
from ._imports import when_imported

REFUSED = 86  # exit code of an attempt that was stopped because its plan cannot be honoured


def attach(torch, recorder):
    plan = json.loads(os.environ["PLIMSOLL_FIT"])
    fit = Fit(torch, recorder, plan)
    recorder.extra["fit"] = fit.report
    if plan.get("split", 1) > 1:
        Splitter(fit, plan["split"]).install()
    if plan.get("chunk", 1) > 1:
        _chunk.install(fit, plan["chunk"])
    else:
        _chunk.learn(fit)
    if plan.get("checkpoint"):
        _checkpoint.install(fit)
    if plan.get("loop_optimizer"):
        _optimizers.without_foreach(fit)
    if plan.get("autocast"):
        _optimizers.under_autocast(fit, plan["autocast"])
    if plan.get("expandable"):
        recorder.before_notes.append(fit.check_expandable)
    when_imported("transformers.training_args", fit.adapt_trainer)


class Fit:
    """What all mitigations share: the plan, the report and the right to refuse."""

    def __init__(self, torch, recorder, plan):
        self.torch, self.recorder, self.plan = torch, recorder, plan
        self.report = {"split": plan.get("split", 1), "batch": 0, "model_batch": 0, "applied": [], "refused": "", "part": "", "where": "", "steps": 0, "micro_batches": 0,
                       "broke_off": False, "losses": [], "checkpoints": 0, "recomputed": 0}
        self.trainer = False  # a framework does the accumulation itself

    def applied(self, what):
        if what not in self.report["applied"]:
            self.report["applied"].append(what)
            self.recorder.used = True

    def refuse(self, why, part="split"):
        """Stop this attempt because of a part of its plan: going on would train something else than the script's author meant."""
        frame = next(iter(script_stack()), None)
        self.report["refused"], self.report["part"] = why, part
        self.report["where"] = f"{frame['file']}:{frame['line']}" if frame else ""
        self.recorder.used = True
        self.recorder.flush(force=True)
        self.recorder.gone()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(REFUSED)

    def check_expandable(self):
        """Expandable segments are on when a segment says so; the variable alone proves nothing (2.9.1 ignores one of its names)."""
        torch = self.torch
        if torch.cuda.is_initialized() and any(s.get("is_expandable") for s in torch.cuda.memory_snapshot()):
            self.applied("expandable segments (a segment is)")

    def adapt_trainer(self, module):
        """transformers' Trainer accumulates itself: smaller batches, more of them, before anything reads the arguments."""
        original = module.TrainingArguments.__post_init__
        split, checkpoint = self.plan.get("split", 1), self.plan.get("checkpoint")

        def __post_init__(args):
            self.trainer = True
            if split > 1:
                if args.per_device_train_batch_size % split:
                    self.refuse(f"a batch of {args.per_device_train_batch_size} cannot be split into {split} equal parts")
                self.report["batch"] = args.per_device_train_batch_size
                args.per_device_train_batch_size //= split
                args.gradient_accumulation_steps *= split
                self.applied(f"Trainer: micro-batch {args.per_device_train_batch_size}, accumulated {args.gradient_accumulation_steps} times")
            if checkpoint and not args.gradient_checkpointing:
                args.gradient_checkpointing = True
                self.applied("Trainer: gradient_checkpointing")
            original(args)

        module.TrainingArguments.__post_init__ = __post_init__
