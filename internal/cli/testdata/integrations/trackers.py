"""Trackers that the script uses itself: what they have of plimsoll in the end. PLIMSOLL_LOG decides whether there is anything."""
import glob
import os
import sys

folder = sys.argv[1]
os.environ.update(WANDB_MODE="offline", WANDB_DIR=folder, WANDB_SILENT="true", MLFLOW_TRACKING_URI=f"file://{folder}/mlflow", MLFLOW_ALLOW_FILE_STORE="true")
import torch

import plimsoll
from plimsoll import _recorder

if "PLIMSOLL_LOG" not in os.environ:
    plimsoll.start(folder + "/report")
    print("on" if _recorder.current().trackers else "off")
    sys.exit()

import mlflow
import wandb
from torch.utils.tensorboard import SummaryWriter

_recorder.NOTES_EVERY = 0  # every step
run = wandb.init(project="test")
writer = SummaryWriter(folder + "/tb")
plimsoll.start(folder + "/report")
writer = SummaryWriter(folder + "/tb")
with mlflow.start_run() as active:
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        run.log({"loss": 1.0})
    print("mlflow", sorted(mlflow.get_run(active.info.run_id).data.metrics))
print("wandb", sorted(k for k in dict(run.summary) if k.startswith("plimsoll/")), run.step)
run.finish()
writer.close()
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

events = EventAccumulator(folder + "/tb")
events.Reload()
print("tensorboard", sorted(events.Tags()["scalars"]))
print("problems", _recorder.current().problems)
