# truth: logits of the whole evaluation, gathered by Trainer
# holder: variable all_preds
import torch
from torch import nn

import kit

import os
import tempfile

os.environ["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", "0")
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

WORDS = kit.d(20_000, 100)


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return kit.d(4000, 24)

    def __getitem__(self, i):
        ids = torch.randint(WORDS, (kit.d(128, 16),))
        return {"input_ids": ids, "labels": ids}


class Late(TrainerCallback):
    seen = 0

    def on_prediction_step(self, *args, **kwargs):
        Late.seen += 1
        if Late.seen == 4 and not kit.CUDA:
            kit.look()


model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=kit.d(256, 32), n_head=4, vocab_size=WORDS))
arguments = TrainingArguments(tempfile.mkdtemp(), per_device_eval_batch_size=4, report_to=[], disable_tqdm=True, use_cpu=not kit.CUDA)
trainer = Trainer(model=model, args=arguments, eval_dataset=Data(), callbacks=[Late()], compute_metrics=lambda p: {})
trainer.evaluate()
