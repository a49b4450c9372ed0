import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from transformers import BertConfig, BertForTokenClassification


def collate(rows):
    ids = torch.stack(rows)
    return {"input_ids": ids, "labels": ids % 1200}


def training_function():
    accelerator = Accelerator()
    config = BertConfig(vocab_size=4000, hidden_size=256, num_hidden_layers=2, num_attention_heads=4, intermediate_size=512, num_labels=1200)
    model = BertForTokenClassification(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    data = [torch.randint(0, 4000, (256,)) for _ in range(3200)]
    loader = DataLoader(data, batch_size=32, collate_fn=collate)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    model.train()
    all_logits, all_labels = [], []
    for step, batch in enumerate(loader):
        outputs = model(**batch)
        accelerator.backward(outputs.loss)
        optimizer.step()
        optimizer.zero_grad()
        logits, labels = accelerator.gather_for_metrics((outputs.logits.detach(), batch["labels"]))
        all_logits.append(logits)
        all_labels.append(labels)
        if step % 20 == 0:
            accelerator.print(step, outputs.loss.item())
    accuracy = (torch.cat(all_logits).argmax(-1) == torch.cat(all_labels)).float().mean()
    accelerator.print("train accuracy", accuracy.item())


training_function()
