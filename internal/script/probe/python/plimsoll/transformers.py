"""A callback for transformers' Trainer: `Trainer(..., callbacks=[PlimsollCallback()])`."""
from transformers import TrainerCallback

from . import _advice, _recorder, mark, start

GIB = 2**30


class PlimsollCallback(TrainerCallback):
    """Records memory from the beginning of training, and explains an out-of-memory error that ends it.

    report is the folder for snapshots and notes. With log=True peak, reserved memory and growth go into what the Trainer prints and keeps in its log history.
    Trackers that `report_to` names have been told by then: `plimsoll run --log` reaches those.
    """

    def __init__(self, report="plimsoll-report", log=False):
        self.report, self.log, self.first = report, log, None

    def on_train_begin(self, args, state, control, **kwargs):
        start(self.report)
        _advice.tell_at_the_end()

    def on_epoch_begin(self, args, state, control, **kwargs):
        mark(f"epoch {int(state.epoch or 0) + 1}")

    def on_evaluate(self, args, state, control, **kwargs):
        mark("evaluation ended")

    def on_log(self, args, state, control, logs=None, **kwargs):
        recorder = _recorder.current()
        if not self.log or logs is None or recorder is None:
            return
        allocated, _, reserved, _ = recorder._memory()
        self.first = allocated if self.first is None else self.first
        told = {"memory_peak_gib": recorder.peak["allocated"] / GIB, "memory_reserved_gib": reserved / GIB, "memory_growth_gib": (allocated - self.first) / GIB}
        logs.update(told)
        if state.log_history:  # has a copy of these logs (transformers/trainer.py, Trainer.log)
            state.log_history[-1].update(told)

    def on_train_end(self, args, state, control, **kwargs):
        recorder = _recorder.current()
        if recorder is not None:
            mark("training ended")
            recorder.flush(force=True)
