"""Lightning's Trainer with the callback."""
import sys

import kit
import lightning
import torch

from plimsoll.lightning import PlimsollCallback


class Module(lightning.LightningModule):
    def __init__(self, steps):
        super().__init__()
        self.model = kit.Hungry(steps)

    def training_step(self, batch, index):
        return self.model(batch)["loss"]

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def train(steps, log):
    loader = torch.utils.data.DataLoader(torch.ones(8, 4), batch_size=2)
    trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                                callbacks=[PlimsollCallback(sys.argv[1] + "/report", log=log)])
    trainer.fit(Module(steps), loader)
    return trainer


print("logged", sorted(k for k in train(100, True).callback_metrics if k.startswith("memory_")))
try:
    train(3, False)
except torch.OutOfMemoryError:
    print("the error went on")
