import torch
import torch.nn as nn
import torch.nn.functional as F
import lightning.pytorch as pl
from torch.utils.data import DataLoader, TensorDataset


class Classifier(pl.LightningModule):
    def __init__(self, hidden=8192):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Linear(784, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU())
        self.head = nn.Linear(hidden, 10)
        self.training_step_outputs = []

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        features = self(x)
        logits = self.head(features)
        loss = F.cross_entropy(logits, y)
        self.training_step_outputs.append({"loss": loss, "features": features})
        return loss

    def on_train_epoch_end(self):
        print(torch.stack([o["loss"] for o in self.training_step_outputs]).mean())
        self.training_step_outputs.clear()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


if __name__ == "__main__":
    data = TensorDataset(torch.randn(40000, 784), torch.randint(0, 10, (40000,)))
    trainer = pl.Trainer(max_epochs=2, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(Classifier(), DataLoader(data, batch_size=512))
