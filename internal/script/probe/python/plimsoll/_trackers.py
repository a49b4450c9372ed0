"""Logs memory to the experiment tracker that the script itself uses: Weights & Biases, MLflow, TensorBoard. Off unless PLIMSOLL_LOG is set.

Nothing is imported and no run is started here: a tracker counts as active when the script has imported it and opened a run or a writer.
"""
import os
import sys
import weakref

from ._imports import when_imported

GIB = 2**30


def wanted():
    return os.environ.get("PLIMSOLL_LOG", "") not in ("", "0")


class Trackers:
    def __init__(self, recorder):
        self.recorder, self.writers, self.first = recorder, weakref.WeakSet(), None
        when_imported("torch.utils.tensorboard.writer", self._watch_writers)

    def _watch_writers(self, module):
        original, writers = module.SummaryWriter.__init__, self.writers

        def __init__(writer, *args, **kwargs):
            original(writer, *args, **kwargs)
            writers.add(writer)

        module.SummaryWriter.__init__ = __init__

    def log(self):
        """Log the memory of this moment, with the optimizer's steps as the x axis."""
        recorder = self.recorder
        allocated, _, reserved, _ = recorder._memory()
        if self.first is None and recorder.step > 0:
            self.first = allocated
        values = {
            "plimsoll/peak_allocated_gib": recorder.peak["allocated"] / GIB,
            "plimsoll/reserved_gib": reserved / GIB,
            "plimsoll/growth_gib": (allocated - self.first) / GIB if self.first is not None else 0.0,  # since the first step
        }
        for tracker in (self._wandb, self._mlflow, self._tensorboard):
            recorder._try(lambda: tracker(values, recorder.step))

    def _wandb(self, values, step):
        wandb = sys.modules.get("wandb")
        if wandb is not None and getattr(wandb, "run", None) is not None:
            wandb.run.log(values, commit=False)  # goes out with the script's own next log, so that its steps stay its own

    def _mlflow(self, values, step):
        mlflow = sys.modules.get("mlflow")
        if mlflow is not None and mlflow.active_run() is not None:
            mlflow.log_metrics(values, step=step)

    def _tensorboard(self, values, step):
        for writer in list(self.writers):
            for name, value in values.items():
                writer.add_scalar(name, value, step)
