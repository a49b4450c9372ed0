import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import lightning.pytorch as pl


class AE(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(3, 32, 4, 2, 1), nn.ReLU(), nn.Conv2d(32, 32, 4, 2, 1))
        self.decoder = nn.Sequential(nn.ConvTranspose2d(32, 32, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(32, 16, 4, 2, 1))
        self.validation_outputs = []

    def training_step(self, batch, _):
        (x,) = batch
        return (self.decoder(self.encoder(x)).mean(1, keepdim=True) - x).pow(2).mean()

    def validation_step(self, batch, _):
        (x,) = batch
        y = self.decoder(self.encoder(x))
        self.validation_outputs.append(y)

    def on_validation_epoch_end(self):
        self.log("val", torch.cat(self.validation_outputs).std())
        self.validation_outputs = []

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-3)


train_dl = DataLoader(TensorDataset(torch.rand(512, 3, 64, 64)), 64)
val_dl = DataLoader(TensorDataset(torch.rand(6400, 3, 128, 128)), 64)
pl.Trainer(max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0).fit(AE(), train_dl, val_dl)
