import tempfile
import numpy as np
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, Trainer, TrainingArguments


class Toy(torch.utils.data.Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        x = torch.randint(0, 16000, (192,))
        return {"input_ids": x, "labels": x.clone()}


def compute_metrics(p):
    return {"acc": float((np.argmax(p.predictions, -1) == p.label_ids).mean())}


cfg = LlamaConfig(vocab_size=16000, hidden_size=256, intermediate_size=688, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4, use_cache=False)
model = AutoModelForCausalLM.from_config(cfg)
args = TrainingArguments(tempfile.mkdtemp(), per_device_train_batch_size=8, per_device_eval_batch_size=8, max_steps=6, report_to=[], save_strategy="no", disable_tqdm=True)
trainer = Trainer(model=model, args=args, train_dataset=Toy(64), eval_dataset=Toy(800), compute_metrics=compute_metrics)
trainer.train()
print(trainer.evaluate())
