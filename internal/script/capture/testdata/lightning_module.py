"""A LightningModule under a Trainer that asks for one GPU."""
import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        assert x.device == self.device
        loss = nn.functional.cross_entropy(self(x), y)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("val_acc", (self(x).argmax(1) == y).float().mean())

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=1e-3)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 10)}


data = TensorDataset(torch.randn(64, 8, 8), torch.randint(0, 10, (64,)))
trainer = L.Trainer(accelerator="gpu", devices=1, max_epochs=1, precision="bf16-mixed", accumulate_grad_batches=2, gradient_clip_val=1.0, logger=False,
                    enable_checkpointing=False, enable_progress_bar=False, num_sanity_val_steps=1)
trainer.fit(Classifier(), DataLoader(data, batch_size=16, num_workers=2), DataLoader(data, batch_size=16))
print("trained")
