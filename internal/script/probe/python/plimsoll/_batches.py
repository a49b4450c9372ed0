"""Which batches a script's own loader makes: its sampler and its collate function run, the model does not.

The iterator that fed the captured step goes on to its end, so that the order is the script's. Nothing here knows the data: of every batch the number of
samples, the length it is padded to and whether anything is padding are written down.
"""
import json
import os
import time

from . import _files

SECONDS = 120.0  # of looking at further batches
MOST = 1_000_000


class Batches:
    def __init__(self, torch):
        self.torch, self.iterator, self.seen = torch, None, []

    def saw(self, iterator, batch):
        if iterator is not self.iterator:
            self.iterator, self.seen = iterator, []
        self.seen.append(self.shape(batch))

    def shape(self, batch):
        """[samples, tokens, whether any is padding] of a batch of token ids; None of anything else."""
        get = batch.get if hasattr(batch, "get") else lambda name: None
        ids = get("input_ids")
        if not self.tokens(ids):
            ids = next((t for t in self.tensors(batch) if self.tokens(t)), None)
        if ids is None:
            return None
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
        """Go through the rest of the epoch and write what was seen."""
        until, complete, why = time.monotonic() + SECONDS, False, ""
        if self.iterator is None:
            why = "no DataLoader of torch.utils.data fed the step"
        while self.iterator is not None and time.monotonic() < until and len(self.seen) < MOST:
            try:
                next(self.iterator)  # seen on its way
            except StopIteration:
                complete = True
                break
            except Exception as problem:
                why = f"the loader failed at batch {len(self.seen) + 1}: {type(problem).__name__}: {str(problem)[:300]}"
                break
        if not why and None in self.seen:
            why = "a batch has no token ids: two-dimensional integers are looked for"
        found = {"schema": "plimsoll.capture-run/1", "batches": [] if None in self.seen else self.seen, "complete": complete, "why": why}
        for model in models:
            config = getattr(model, "config", None)
            if hasattr(config, "to_json_string"):
                found["config"] = json.loads(config.to_json_string(use_diff=False))
                found["config"]["architectures"] = [type(model).__name__]
                found["attn"] = getattr(config, "_attn_implementation", None)
                break
        _files.write_json(os.path.join(report, "run.json"), found)
