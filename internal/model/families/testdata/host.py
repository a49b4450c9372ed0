"""Writes host.jsonl: small models of every family, run by PyTorch 2.11 and transformers 5.17 on the host.

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
    AutoModelForImageClassification,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForSpeechSeq2Seq,
    AutoModelForTokenClassification,
)

AUTO = {
    "causal-lm": AutoModelForCausalLM,
    "image-cls": AutoModelForImageClassification,
    "masked-lm": AutoModelForMaskedLM,
    "seq-cls": AutoModelForSequenceClassification,
    "seq2seq-lm": AutoModelForSeq2SeqLM,
    "speech-seq2seq": AutoModelForSpeechSeq2Seq,
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

SWIN = dict(image_size=64, patch_size=4, embed_dim=32, depths=[2, 2], num_heads=[2, 4], window_size=4)
SEGFORMER = dict(hidden_sizes=[16, 32, 40, 64], num_attention_heads=[1, 2, 5, 8])
VIT = dict(hidden_size=64, num_hidden_layers=3, num_attention_heads=4, intermediate_size=96, image_size=32, patch_size=8,
           hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
IMAGES = [
    ("vit", "vit", VIT, 32),
    ("deit", "deit", VIT, 32),
    ("dinov2", "dinov2", dict(VIT, mlp_ratio=2), 32),
    ("dinov2-larger", "dinov2", dict(VIT, mlp_ratio=2), 48),
    ("dinov2-swiglu", "dinov2", dict(VIT, use_swiglu_ffn=True, drop_path_rate=0.1), 32),
    ("beit", "beit", dict(VIT, drop_path_rate=0.0), 32),
    ("beit-bias", "beit", dict(VIT, use_relative_position_bias=True, use_mean_pooling=False, use_absolute_position_embeddings=True), 32),
    ("beit-shared", "beit", dict(VIT, use_shared_relative_position_bias=True, layer_scale_init_value=0.0, drop_path_rate=0.2), 48),
    ("swin", "swin", dict(SWIN, drop_path_rate=0.1), 64),
    ("swin-padded", "swin", SWIN, 58),
    ("swin-absolute", "swin", dict(SWIN, image_size=32, use_absolute_embeddings=True, qkv_bias=False), 32),
    ("segformer", "segformer", dict(SEGFORMER, depths=[1, 2, 1, 1], drop_path_rate=0.1), 64),
    ("segformer-flat", "segformer", dict(SEGFORMER, depths=[1, 1, 1, 1], reshape_last_stage=False, drop_path_rate=0.0), 64),
    ("convnext", "convnext", dict(depths=[1, 2], hidden_sizes=[16, 32], num_stages=2, drop_path_rate=0.1), 64),
]
T5 = dict(vocab_size=512, d_model=64, d_kv=16, d_ff=96, num_layers=3, num_heads=4, dropout_rate=0.0, decoder_start_token_id=0, pad_token_id=0)
TWO_SIDES = dict(vocab_size=512, d_model=64, encoder_layers=2, decoder_layers=3, encoder_attention_heads=4, decoder_attention_heads=4,
                 encoder_ffn_dim=96, decoder_ffn_dim=128, dropout=0.0)
TRANSLATORS = [
    ("t5", "t5", T5),
    ("t5-gated", "t5", dict(T5, feed_forward_proj="gated-gelu", num_decoder_layers=2, tie_word_embeddings=False)),
    ("bart", "bart", dict(TWO_SIDES, max_position_embeddings=64)),
    ("bart-scaled", "bart", dict(TWO_SIDES, max_position_embeddings=64, scale_embedding=True, activation_function="relu")),
]
WHISPER = dict(TWO_SIDES, num_mel_bins=16, max_source_positions=30, max_target_positions=40, pad_token_id=0, bos_token_id=1,
               eos_token_id=2, decoder_start_token_id=1)


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


def build(case):
    fields = dict(case["config"])
    config = AutoConfig.for_model(fields.pop("model_type"), **fields)
    if config.model_type != "t5":  # its decoder keeps the configuration it was made with
        config.use_cache = False
    choice = {} if config.model_type in ("bloom", "deberta-v2", "convnext") else {"attn_implementation": "eager"}
    make = transformers.DeiTForImageClassification._from_config if config.model_type == "deit" else AUTO[case["task"]].from_config
    model = make(config, dtype=DTYPES[case["param_dtype"]], **choice).train()
    if case["checkpointing"]:
        model.gradient_checkpointing_enable()
    return model


def inputs(case):
    batch, task = case["batch"], case["task"]
    words = lambda length: torch.randint(5, 500, (batch, length))
    if task == "image-cls":
        return dict(pixel_values=torch.randn(batch, 3, case["image"], case["image"]), labels=torch.zeros(batch, dtype=torch.long))
    if task == "seq2seq-lm":
        return dict(input_ids=words(case["seq"]), labels=words(case["target_seq"]))
    if task == "speech-seq2seq":
        frames = 2 * case["config"]["max_source_positions"]
        return dict(input_features=torch.randn(batch, case["config"]["num_mel_bins"], frames), labels=words(case["target_seq"]))
    ids = words(case["seq"])
    labels = {"seq-cls": torch.zeros(batch, dtype=torch.long), "token-cls": torch.zeros_like(ids)}.get(task, ids)
    return dict(input_ids=ids, labels=labels)


def host_only(case):
    """BEiT caches its index of distances on the host, whatever device it trains on."""
    if case["config"]["model_type"] != "beit":
        return []
    side = case["image"] // case["config"]["patch_size"]
    return [transformers.models.beit.modeling_beit.BeitRelativePositionBias.generate_relative_position_index((side, side))]


def measure(case):
    torch.manual_seed(0)
    model, batch = build(case), inputs(case)
    known = [t.untyped_storage() for t in [*model.parameters(), *model.buffers(), *batch.values(), *host_only(case)]]
    with Alive(known) as alive:
        output = model(**batch)
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


def other_cases():
    """Image classifiers and models of two sequences."""
    for checkpointing in (False, True):
        common = dict(batch=3, param_dtype="fp32", checkpointing=checkpointing)
        for name, kind, fields, image in IMAGES:
            if not (checkpointing and kind == "convnext"):
                yield dict(name=name, task="image-cls", config=dict(fields, model_type=kind), image=image, **common)
        for name, kind, fields in TRANSLATORS:
            yield dict(name=name, task="seq2seq-lm", config=dict(fields, model_type=kind), seq=40, target_seq=24, **common)
        yield dict(name="whisper", task="speech-seq2seq", config=dict(WHISPER, model_type="whisper"), target_seq=24, **common)


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    for case in [*cases(), *other_cases()]:
        measure(case)
        print(json.dumps(case), flush=True)
