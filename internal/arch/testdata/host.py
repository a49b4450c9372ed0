"""Writes host.jsonl: small models of every text family, run by PyTorch 2.11 and transformers 5.17 on the host.

For each case: the number of parameters, and the bytes of tensors (beside parameters, buffers and the batch) that were alive at the
highest point of forward, after forward and after backward. Dropout is off and attention is eager, so that the host runs the operators a
card runs; bf16 cases have RMSNorm only, since LayerNorm on the host keeps its statistics in bf16.

    python host.py > host.jsonl
"""

import json
import weakref

import torch
import transformers
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)

AUTO = {
    "causal-lm": AutoModelForCausalLM,
    "masked-lm": AutoModelForMaskedLM,
    "seq-cls": AutoModelForSequenceClassification,
    "token-cls": AutoModelForTokenClassification,
}
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
SMALL = dict(vocab_size=512, hidden_size=64, num_hidden_layers=3, num_attention_heads=4)
GATED = dict(SMALL, intermediate_size=96, num_key_value_heads=2)
STILL = dict(SMALL, intermediate_size=96, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
RELATIVE = dict(STILL, relative_attention=True, pos_att_type=["p2c", "c2p"])
HALF_ROPE = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}

RMS = [
    ("llama", "llama", GATED),
    ("mistral-window", "mistral", dict(GATED, sliding_window=16, head_dim=16)),
    ("qwen2", "qwen2", GATED),
    ("qwen2-window", "qwen2", dict(GATED, use_sliding_window=True, sliding_window=16, max_window_layers=1)),
    ("qwen3", "qwen3", dict(GATED, head_dim=32)),
    ("gemma", "gemma", dict(GATED, num_key_value_heads=1, head_dim=32)),
    ("gemma2", "gemma2", dict(GATED, head_dim=32, sliding_window=16)),
    ("gemma3", "gemma3_text", dict(GATED, head_dim=32, sliding_window=16)),
    ("phi3", "phi3", dict(GATED, pad_token_id=0)),
    ("phi3-half", "phi3", dict(GATED, pad_token_id=0, rope_parameters=HALF_ROPE, sliding_window=16)),
    ("mixtral", "mixtral", dict(GATED, num_local_experts=4)),
]
DECODERS = [
    ("gpt2", "gpt2", dict(vocab_size=512, n_embd=64, n_layer=3, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)),
    ("gpt-neox", "gpt_neox", dict(SMALL, intermediate_size=96)),
    ("gpt-neox-serial", "gpt_neox", dict(SMALL, intermediate_size=96, use_parallel_residual=False)),
    ("opt", "opt", dict(SMALL, ffn_dim=96, dropout=0.0)),
    ("opt-post-norm", "opt", dict(SMALL, ffn_dim=96, dropout=0.0, do_layer_norm_before=False, word_embed_proj_dim=32)),
    ("bloom", "bloom", dict(vocab_size=512, hidden_size=64, n_layer=3, n_head=4)),
    ("falcon-7b", "falcon", SMALL),
    ("falcon-40b", "falcon", dict(SMALL, new_decoder_architecture=True, num_kv_heads=2)),
    ("falcon-11b", "falcon", dict(SMALL, new_decoder_architecture=True, num_kv_heads=2, num_ln_in_parallel_attn=1)),
    ("falcon-rw", "falcon", dict(SMALL, alibi=True, bias=True, multi_query=False, parallel_attn=False)),
]
ENCODERS = [
    ("bert", "bert", STILL),
    ("roberta", "roberta", STILL),
    ("electra", "electra", dict(STILL, embedding_size=32)),
    ("distilbert", "distilbert", dict(vocab_size=512, dim=64, n_layers=3, n_heads=4, hidden_dim=96, dropout=0.0,
                                      attention_dropout=0.0, seq_classif_dropout=0.0)),
    ("albert", "albert", dict(STILL, embedding_size=32, classifier_dropout_prob=0.0)),
    ("albert-groups", "albert", dict(STILL, embedding_size=32, classifier_dropout_prob=0.0, num_hidden_groups=2, inner_group_num=2)),
    ("deberta-v3", "deberta-v2", dict(RELATIVE, position_buckets=16, norm_rel_ebd="layer_norm", share_att_key=True,
                                      position_biased_input=False)),
    ("deberta-v2-conv", "deberta-v2", dict(RELATIVE, type_vocab_size=2, max_position_embeddings=64, conv_kernel_size=3,
                                           conv_act="gelu", legacy=False)),
    ("deberta-plain", "deberta-v2", STILL),
]


class Alive(TorchDispatchMode):
    """Counts the bytes of storages that operators have made and nobody has released."""

    def __init__(self, known):
        super().__init__()
        self.known = {s._cdata for s in known}
        self.sizes = {}
        self.now = self.peak = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for value in torch.utils._pytree.tree_leaves(result):
            if isinstance(value, torch.Tensor):
                self.add(value.untyped_storage())
        return result

    def add(self, storage):
        key = storage._cdata
        if key in self.sizes or key in self.known:
            return
        self.sizes[key] = storage.nbytes()
        self.now += storage.nbytes()
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self.remove, key)

    def remove(self, key):
        self.now -= self.sizes.pop(key, 0)


def measure(case):
    torch.manual_seed(0)
    fields = dict(case["config"])
    config = AutoConfig.for_model(fields.pop("model_type"), **fields)
    config.use_cache = False
    choice = {} if config.model_type in ("bloom", "deberta-v2") else {"attn_implementation": "eager"}
    model = AUTO[case["task"]].from_config(config, dtype=DTYPES[case["param_dtype"]], **choice).train()
    if case["checkpointing"]:
        model.gradient_checkpointing_enable()
    ids = torch.randint(5, 500, (case["batch"], case["seq"]))
    labels = {"seq-cls": torch.zeros(case["batch"], dtype=torch.long), "token-cls": torch.zeros_like(ids)}.get(case["task"], ids)
    known = [t.untyped_storage() for t in [*model.parameters(), *model.buffers(), ids, labels]]
    with Alive(known) as alive:
        output = model(input_ids=ids, labels=labels)
        case["forward_peak"], case["after_forward"] = alive.peak, alive.now
        output.loss.backward()
        case["after_backward"] = alive.now
    case["params"] = sum(p.numel() for p in model.parameters())


def classifiers(families):
    """Decoders that classify need a padding token; dropout before a classifier of tokens can be switched off in three families."""
    return [(name, kind, dict(fields, pad_token_id=0)) for name, kind, fields in families]


def cases():
    still = [(n, k, dict(f, classifier_dropout=0.0) if k == "gpt_neox" else f) for n, k, f in DECODERS if k in ("gpt_neox", "bloom", "falcon")]
    tasks = [("causal-lm", RMS + DECODERS), ("seq-cls", classifiers(RMS + DECODERS)), ("token-cls", classifiers(still))]
    tasks += [(t, ENCODERS) for t in ("masked-lm", "seq-cls", "token-cls")]
    for task, families in tasks:
        for name, kind, fields in families:
            for dtype, checkpointing in (("fp32", False), ("fp32", True), ("bf16", False), ("bf16", True)):
                if (dtype == "bf16" and (name, kind, fields) not in RMS) or (checkpointing and kind == "albert"):
                    continue
                yield dict(name=name, task=task, config=dict(fields, model_type=kind), batch=3, seq=40, param_dtype=dtype,
                           checkpointing=checkpointing)


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    for case in cases():
        measure(case)
        print(json.dumps(case), flush=True)
