"""transformers' Trainer with the callback: first a run that lives and logs, then one that dies."""
import sys

import kit
import torch
from transformers import Trainer, TrainingArguments

from plimsoll.transformers import PlimsollCallback

data = [{"x": torch.ones(4)} for _ in range(8)]


def train(model, log):
    args = TrainingArguments(output_dir=sys.argv[1] + "/out", per_device_train_batch_size=2, max_steps=4, logging_steps=1, report_to=[], use_cpu=True,
                             save_strategy="no", disable_tqdm=True)
    trainer = Trainer(model=model, args=args, train_dataset=data, callbacks=[PlimsollCallback(sys.argv[1] + "/report", log=log)])
    trainer.train()
    return trainer


lived = train(kit.Hungry(steps=100), log=True)
print("logged", sorted(k for k in lived.state.log_history[0] if k.startswith("memory_")))
train(kit.Hungry(), log=False)
