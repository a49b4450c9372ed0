"""A callback for Lightning: `Trainer(callbacks=[PlimsollCallback()])`, with `lightning` or `pytorch_lightning`."""
try:
    from lightning.pytorch import Callback
except ImportError:
    from pytorch_lightning import Callback

from . import _advice, _recorder, mark, start

GIB = 2**30


class PlimsollCallback(Callback):
    """Records memory from the beginning of training, and explains an out-of-memory error when it happens.

    report is the folder for snapshots and notes. With log=True peak, reserved memory and growth are logged to the Trainer's loggers once an epoch.
    """

    def __init__(self, report="plimsoll-report", log=False):
        self.report, self.log, self.first = report, log, None

    def setup(self, trainer, module, stage):
        start(self.report)

    def on_train_epoch_start(self, trainer, module):
        mark(f"epoch {trainer.current_epoch + 1}")

    def on_train_epoch_end(self, trainer, module):
        recorder = _recorder.current()
        if not self.log or recorder is None:
            return
        allocated, _, reserved, _ = recorder._memory()
        self.first = allocated if self.first is None else self.first
        module.log_dict({"memory_peak_gib": recorder.peak["allocated"] / GIB, "memory_reserved_gib": reserved / GIB, "memory_growth_gib": (allocated - self.first) / GIB})

    def on_exception(self, trainer, module, exception):
        if _advice.is_out_of_memory(exception):
            _advice.tell(exception)

    def on_fit_end(self, trainer, module):
        recorder = _recorder.current()
        if recorder is not None:
            recorder.flush(force=True)
