"""BERT fine-tuning by hand: padded sentences, attention masks, a linear schedule, clipping, `inputs = {k: v.to(device)}`."""
import torch
from torch.utils.data import DataLoader, Dataset
from transformers import BertConfig, BertForSequenceClassification, get_linear_schedule_with_warmup

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Sentences(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, i):
        return {"input_ids": list(range(5, 12 + i % 9)), "label": i % 3}


def collate(rows):
    longest = max(len(r["input_ids"]) for r in rows)
    pad = lambda r, value: r + [value] * (longest - len(r))
    return {
        "input_ids": torch.tensor([pad(r["input_ids"], 0) for r in rows]),
        "attention_mask": torch.tensor([pad([1] * len(r["input_ids"]), 0) for r in rows]),
        "labels": torch.tensor([r["label"] for r in rows]),
    }


def main():
    config = BertConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, num_labels=3)
    model = BertForSequenceClassification(config)
    model.to(device)
    loader = DataLoader(Sentences(), batch_size=8, shuffle=True, collate_fn=collate, num_workers=4, pin_memory=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, eps=1e-8)
    scheduler = get_linear_schedule_with_warmup(optimizer, num_warmup_steps=0, num_training_steps=len(loader))
    print("parameters", sum(p.numel() for p in model.parameters()))
    model.train()
    for step, batch in enumerate(loader):
        batch = {k: v.to(device) for k, v in batch.items()}
        assert all(v.is_cuda == (device.type == "cuda") for v in batch.values()) and batch["input_ids"].device == model.device
        outputs = model(**batch)
        loss = outputs.loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        model.zero_grad()
        print("trained", loss.item())


if __name__ == "__main__":
    main()
