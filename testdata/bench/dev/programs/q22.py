import tempfile
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 256

    def __getitem__(self, i):
        x = torch.randint(0, 6000, (128,))
        return {"input_ids": x, "labels": x}


model = GPT2LMHeadModel(GPT2Config(vocab_size=6000, n_positions=128, n_embd=384, n_layer=3, n_head=6))
args = TrainingArguments(tempfile.mkdtemp(), per_device_train_batch_size=16, per_device_eval_batch_size=32, max_steps=14, eval_strategy="steps", eval_steps=7,
                         prediction_loss_only=True, report_to="none", save_strategy="no", disable_tqdm=True, gradient_accumulation_steps=2)
Trainer(model=model, args=args, train_dataset=Rows(), eval_dataset=Rows()).train()
