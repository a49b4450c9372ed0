"""Which batches a script's own loaders make: its sampler and its collate function run, the model does not.

The iterator that fed the captured step goes on to its end, so that the order is the script's; further epochs begin with the same loader. Loaders of other data
are what the script evaluates on. Nothing here knows the data: of every batch the number of samples, the length it is padded to (0: it has no token ids) and
whether anything is padding are written down.
"""
import json
import math
import os
import sys
import time
import weakref

from . import _files

SECONDS = 120.0  # of looking at further batches
MOST = 1_000_000


class Batches:
    def __init__(self, torch, epochs):
        self.torch, self.epochs = torch, epochs  # 0: as many as the script says, one where it does not
        self.iterator, self.seen = None, []
        self.loaders = []
        self.looking = None  # where batches go that are only looked at
        self.why = ""

    def made(self, loader):
        self.loaders.append(weakref.ref(loader))

    def saw(self, iterator, batch):
        if self.looking is not None:
            self.looking.append(self.shape(batch))
            return
        if iterator is not self.iterator:
            self.iterator, self.seen = iterator, []
        self.seen.append(self.shape(batch))

    def shape(self, batch):
        """[samples, tokens, whether any is padding]; None of a batch without tensors."""
        get = batch.get if hasattr(batch, "get") else lambda name: None
        tensors = list(self.tensors(batch))
        ids = get("input_ids")
        if not self.tokens(ids):
            ids = next((t for t in tensors if self.tokens(t)), None)
        if ids is None:
            sized = next((t for t in tensors if t.dim() > 0), None)
            return None if sized is None else [int(sized.shape[0]), 0, False]
        mask = get("attention_mask")
        padded = mask is not None and not bool(mask.bool().all())
        return [int(ids.shape[0]), int(ids.shape[1]), padded]

    def tokens(self, value):
        return isinstance(value, self.torch.Tensor) and value.dim() == 2 and not value.dtype.is_floating_point

    def tensors(self, value):
        if isinstance(value, self.torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            for item in value:
                yield from self.tensors(item)
        elif hasattr(value, "values"):
            yield from self.tensors(list(value.values()))

    def write(self, report, models):
        """Go through the rest of the run and write what was seen."""
        until, trainer = time.monotonic() + SECONDS, _trainer()
        epochs, plan = self.epochs or 1, {}
        if trainer is not None:
            plan = _plan(trainer)
            epochs = self.epochs or plan.get("epochs") or 1
        train, ends = self._train(epochs, until)
        complete = len(ends) == epochs and not self.why
        evaluated = self._evaluated(trainer, until)
        if any(b is None for b in train + evaluated):
            self.why, train, evaluated = "a batch has no tensors", [], []
        found = {"schema": "plimsoll.capture-run/1", "batches": train, "epochs": ends, "meant": epochs, "complete": complete, "why": self.why,
                 "eval": evaluated, "eval_every": plan.get("eval_every", 0), "max_steps": plan.get("max_steps", 0)}
        for model in models:
            config = getattr(model, "config", None)
            if hasattr(config, "to_json_string"):
                found["config"] = json.loads(config.to_json_string(use_diff=False))
                found["config"]["architectures"] = [type(model).__name__]
                found["attn"] = getattr(config, "_attn_implementation", None)
                break
        _files.write_json(os.path.join(report, "run.json"), found)

    def _train(self, epochs, until):
        """All training batches, and how many there are at the end of each epoch that was seen to its end."""
        if self.iterator is None:
            self.why = "no DataLoader of torch.utils.data fed the step"
            return [], []
        out, ends = list(self.seen), []
        loader = self._loader_of(self.iterator)
        iterator = self.iterator
        while True:
            ended = self._drain(iterator, out, until)
            if ended:
                ends.append(len(out))
            if not ended or len(ends) == epochs:
                return out, ends
            if loader is None:
                self.why = "the loader of the first epoch is gone"
                return out, ends
            _tell_epoch(loader, len(ends))
            iterator = iter(loader)

    def _drain(self, iterator, out, until):
        """Take batches from an iterator to its end; whether it was reached."""
        self.looking = out
        try:
            while time.monotonic() < until and len(out) < MOST:
                next(iterator)  # seen on its way
        except StopIteration:
            return True
        except Exception as problem:
            self.why = f"the loader failed at batch {len(out) + 1}: {type(problem).__name__}: {str(problem)[:300]}"
        finally:
            self.looking = None
        return False

    def _loader_of(self, iterator):
        data = getattr(iterator, "_dataset", None)
        same = [loader for loader in self._alive() if loader.dataset is data]
        return same[-1] if same else None

    def _alive(self):
        return [loader for loader in (r() for r in self.loaders) if loader is not None]

    def _evaluated(self, trainer, until):
        """The batches of one evaluation: of the Trainer's own loader, else of every loader of other data than that of the training."""
        if self.iterator is None:
            return []
        if trainer is not None:
            if getattr(trainer, "eval_dataset", None) is None or not _plan(trainer).get("evaluates"):
                return []
            loaders = [trainer.get_eval_dataloader()]
        else:
            by_data = {id(loader.dataset): loader for loader in self._alive()}
            by_data.pop(id(getattr(self.iterator, "_dataset", None)), None)
            loaders = list(by_data.values())
        out, why = [], self.why
        for loader in loaders:
            self._drain(iter(loader), out, until)
        self.why = why  # of training alone
        return out


def _tell_epoch(loader, epoch):
    for holder in (loader, getattr(loader, "sampler", None), getattr(loader, "batch_sampler", None), getattr(getattr(loader, "batch_sampler", None), "sampler", None)):
        if hasattr(holder, "set_epoch"):
            holder.set_epoch(epoch)


def _trainer():
    """The Trainer of transformers that is running the step, where one is."""
    frame = sys._getframe(1)
    while frame is not None:
        owner = frame.f_locals.get("self")
        if hasattr(owner, "get_eval_dataloader") and hasattr(getattr(owner, "args", None), "num_train_epochs"):
            return owner
        frame = frame.f_back
    return None


def _plan(trainer):
    """What a Trainer's arguments say of epochs and evaluation; steps are counted in batches."""
    args = trainer.args
    accumulate = max(int(getattr(args, "gradient_accumulation_steps", 1) or 1), 1)
    out = {"epochs": max(math.ceil(float(args.num_train_epochs)), 1)}
    if int(getattr(args, "max_steps", 0) or 0) > 0:
        out["max_steps"], out["epochs"] = int(args.max_steps) * accumulate, 1
    strategy = str(getattr(getattr(args, "eval_strategy", "no"), "value", getattr(args, "eval_strategy", "no")))
    out["evaluates"] = strategy != "no"
    if strategy == "steps":
        out["eval_every"] = max(int(float(args.eval_steps or args.logging_steps or 1)), 1) * accumulate
    return out
