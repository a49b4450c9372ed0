"""Compares the walk's parameters, gradients, buffers and optimizer state with what PyTorch itself says, name by name and byte by byte; prints what differs."""
import torch
from torch import nn

from plimsoll import _holders


def said(model, optimizer):
    """(role, kind, name): bytes, by named_parameters(), named_buffers(), .grad and optimizer.state; each storage once."""
    out, seen = {}, set()

    def add(role, kind, name, tensor):
        for part in [tensor._indices(), tensor._values()] if tensor.layout == torch.sparse_coo else [tensor]:
            storage = part.untyped_storage()
            if storage.nbytes() and storage.data_ptr() not in seen:
                seen.add(storage.data_ptr())
                out[role, kind, name] = out.get((role, kind, name), 0) + storage.nbytes()

    for name, p in model.named_parameters():
        add("parameter", "", name, p)
    for name, p in model.named_parameters():
        if p.grad is not None:
            add("gradient", "", name, p.grad)
    for name, p in model.named_parameters():
        for kind, value in optimizer.state.get(p, {}).items():
            if torch.is_tensor(value):
                add("optimizer", kind, name, value)
    for name, b in model.named_buffers():
        add("buffer", "", name, b)
    return out


def found(model):
    out = {}
    for h in _holders.look(torch, "cpu", seconds=60)["holders"]:
        if h["role"] not in ("parameter", "gradient", "optimizer", "buffer") or h["name"] != "model":
            continue
        sizes = h["sizes"] * h["count"] if len(h["sizes"]) == 1 else h["sizes"]
        for name, size in zip(h["names"], sizes):
            key = h["role"], h.get("kind", ""), name
            out[key] = out.get(key, 0) + size
    return out


def check(name, model, loss, optimizer=torch.optim.AdamW):
    optimizer = optimizer(model.parameters(), lr=1e-3)
    loss(model).backward()
    optimizer.step()
    want, got = said(model, optimizer), found(model)
    wrong = {k: (want.get(k), got.get(k)) for k in want.keys() | got.keys() if want.get(k) != got.get(k)}
    print(name, len(want), sum(want.values()), "equal" if not wrong else f"differ: {sorted(wrong.items())[:5]}")


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.downsample = nn.Sequential(nn.Conv2d(width, width, 1, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        return torch.relu(self.bn1(self.conv1(x)) + self.downsample(x))


def vision():
    return nn.Sequential(nn.Conv2d(3, 16, 7), Residual(16), Residual(16), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))


def frozen():
    model = vision()
    for p in model[1].parameters():
        p.requires_grad = False
    return model


def transformer(kind, **sizes):
    import transformers

    config = getattr(transformers, kind + "Config")(**sizes)
    model = getattr(transformers, {"GPT2": "GPT2LMHeadModel", "T5": "T5ForConditionalGeneration", "ViT": "ViTForImageClassification",
                                   "Bert": "BertForMaskedLM"}.get(kind, kind + "ForCausalLM"))(config)
    if kind == "ViT":
        return model, lambda m: m(torch.randn(2, 3, 32, 32)).logits.sum()
    ids = torch.randint(90, (2, 8))
    return model, lambda m: m(input_ids=ids, labels=ids).loss


check("convolutions", vision(), lambda m: m(torch.randn(2, 3, 32, 32)).sum())
check("momentum", vision(), lambda m: m(torch.randn(2, 3, 32, 32)).sum(), lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=0.9))
check("sparse gradients", nn.Embedding(100, 8, sparse=True), lambda m: m(torch.tensor([1, 2])).sum(), lambda p, lr: torch.optim.SparseAdam(list(p), lr=lr))
check("frozen", frozen(), lambda m: m(torch.randn(2, 3, 32, 32)).sum())
for kind, sizes in (
    ("GPT2", dict(n_layer=2, n_embd=32, n_head=4, vocab_size=100)), ("Llama", dict(num_hidden_layers=2, hidden_size=32, intermediate_size=64, num_attention_heads=4, vocab_size=100)),
    ("Bert", dict(num_hidden_layers=2, hidden_size=32, intermediate_size=64, num_attention_heads=4, vocab_size=100)),
    ("T5", dict(num_layers=2, d_model=32, d_ff=64, num_heads=4, d_kv=8, vocab_size=100, decoder_start_token_id=0)),
    ("ViT", dict(num_hidden_layers=2, hidden_size=32, intermediate_size=64, num_attention_heads=4, image_size=32, patch_size=8)),
    ("Mistral", dict(num_hidden_layers=2, hidden_size=32, intermediate_size=64, num_attention_heads=4, num_key_value_heads=2, vocab_size=100)),
):
    check(kind, *transformer(kind, **sizes))
