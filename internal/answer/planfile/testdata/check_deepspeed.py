"""Trains a tiny model for one optimizer step with DeepSpeed's engine: check_deepspeed.py FILE. Without arguments it only makes the kernels."""
import json
import sys

import deepspeed
import torch
from deepspeed.ops.adam import DeepSpeedCPUAdam, FusedAdam
from transformers import LlamaConfig, LlamaForCausalLM


def main():
    if len(sys.argv) < 2:
        for make in (DeepSpeedCPUAdam, FusedAdam):
            make([torch.nn.Parameter(torch.zeros(8))])
        return
    settings = json.load(open(sys.argv[1]))
    model = LlamaForCausalLM(LlamaConfig(hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, vocab_size=64, use_cache=False))
    engine, _, _, _ = deepspeed.initialize(model=model, config=settings, dist_init_required=True)
    before = [p.detach().clone() for p in model.parameters()]
    for _ in range(settings["gradient_accumulation_steps"]):
        ids = torch.randint(0, 64, (settings["train_micro_batch_size_per_gpu"], 8))
        engine.backward(engine(input_ids=ids, labels=ids).loss)
        engine.step()
    assert engine.global_steps == 1, engine.global_steps
    assert any((a != b).any() for a, b in zip(before, model.parameters())), "no parameter changed"


main()
