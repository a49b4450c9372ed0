"""Reads every model type of the installed transformers from its code, built small: sweep.py OUT [--seconds N] [--only TYPE,TYPE*] [--again] [--shard I/N]

OUT gets TYPE.json.gz (the graph), TYPE.job.json (the job), or TYPE.failure (why there is none); what is there already is skipped, so that it can be run in pieces:
it stops after so many seconds with status 75 while something is left. Each type is read by a process forked from one that has imported everything, because the
imports take longer than most types do.
"""
import argparse
import copy
import gzip
import json
import logging
import os
import resource
import signal
import sys
import time

from plimsoll import _models

LAYERS = 2
EACH = 60  # seconds of CPU at most

COUNTS = ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers", "num_decoder_layers", "num_encoder_layers", "depth", "folding_trunk_num_hidden_layers")

# Numbers that the default configuration of a type leaves out, so that its code does not run with it: as in the family's published checkpoints, or smaller.
MROPE = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5, "mrope_section": [8, 12, 12]}
XDROPE = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 1.0, "alpha": 1000.0, "mrope_section": [16, 16, 16, 16]}
COMPASS = {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [24, 20, 20]}}}
GEMMA_EXPERTS = {"num_experts": 8, "top_k_experts": 2, "moe_intermediate_size": 704}
OCR_TEXT = {"hidden_size": 1280, "num_attention_heads": 10, "num_key_value_heads": 10, "intermediate_size": 6848, "moe_intermediate_size": 896, "num_experts_per_tok": 6, "n_group": 1, "topk_group": 1,
            "mlp_layer_types": ["dense", "sparse"], "num_hidden_layers": 2}
OCR_VISION = {"encoder_config": {"hidden_size": 896, "num_attention_heads": 14, "num_key_value_heads": 2, "intermediate_size": 4864}}
DRAFT = {"text_config": {"hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0}}
INDEXER = {"indexer_n_heads": 4, "indexer_kv_heads": 1, "indexer_head_dim": 128, "indexer_budget": 64, "indexer_compress_ratio": 4, "num_experts": 16,
           "rope_parameters": {"rope_type": "default", "rope_theta": 10000000.0, "partial_rotary_factor": 0.25, "mrope_section": [11, 11, 10]}}
OMNI = {"num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128}
IMAGE = {"vocabulary_map": {"<image>": 8711}}
BERT = {"model_type": "bert", "hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024, "num_hidden_layers": 2}
READER = {**BERT, "is_decoder": True, "add_cross_attention": True}
STAGES = ["stage1", "stage2", "stage3", "stage4"]
INTRACLASS = {  # as Paddle publishes it: kernel, stride and padding of every convolution
    "reduce_channel": [1, 1, 0], "return_channel": [1, 1, 0],
    **{f"{name}_{ratio}ratio": [[k if v else 1, k if h else 1], [1, 1], [k // 2 if v else 0, k // 2 if h else 0]]
       for name, v, h in (("vertical_long_to_small_conv", 1, 0), ("horizontal_small_to_long_conv", 0, 1), ("symmetric_conv_long", 1, 1)) for ratio, k in (("long", 7), ("mid", 5), ("short", 3))},
}
NECK = {"intraclass_block_config": INTRACLASS, "scale_factor_list": [1, 2, 4, 8], "kernel_list": [3, 2, 2]}
LCNET = {  # the widths of the default, which reads lines of text, with the strides that a detector's neck wants: every stage but the first halves rows and columns
    "model_type": "pp_lcnet_v4", "out_features": STAGES,
    "block_configs": [[[3, 96, 96, 1, True]], [[3, 96, 96, 2, False]], [[3, 96, 192, 2, False], [3, 192, 192, 1, True]], [[3, 192, 384, 2, False], [3, 384, 384, 1, True]]],
}
REPVIT = {"model_type": "timm_wrapper", "architecture": "repvit_m1", "model_args": {"in_chans": 3, "features_only": True, "out_indices": [0, 1, 2, 3]}}
STARTS = {"pad_token_id": 0, "decoder_start_token_id": 0}
LEFT_OUT = {
    "edgetam": {"vision_config": {"model_type": "edgetam_vision_model", "backbone_config": REPVIT}},
    "edgetam_vision_model": {"backbone_config": REPVIT},
    "blip-2": {"image_token_index": 50265},
    "instructblip": {"image_token_index": 50265},
    "instructblipvideo": {"video_token_index": 50265},
    "llama4_vision_model": {"hidden_size": 1408, "vision_output_dim": 4096},
    "lw_detr": {"projector_scale_factors": [1.0]},
    "minicpmv4_6_vision": {"insert_layer_id": 0},
    "perception_lm": {"vision_config": {"architecture": "vit_pe_lang_large_patch14_448", "model_args": {"embed_dim": 1024, "depth": 2, "img_size": [448, 448], "global_pool": "", "use_post_transformer_norm": False, "init_values": 0.1, "ref_feat_shape": [32, 32]}},
                      "text_config": {"model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256}, "projector_pooling_ratio": 2},
    "pp_ocrv5_server_det": NECK,
    "pp_ocrv6_medium_det": {**NECK, "backbone_config": LCNET},
    "pp_ocrv6_small_det": {"backbone_config": LCNET, "layer_list_out_channels": [96, 96, 192, 384]},
    "timm_backbone": {"backbone": "resnet50"},
    "uvdoc": {"backbone_config": {"model_type": "uvdoc_backbone", "out_features": ["stage1", "stage2", "stage3", "stage4", "stage5", "stage6"]}},
    "vitmatte": {"backbone_config": {"model_type": "vitdet", "num_channels": 4, "image_size": 512, "hidden_size": 384, "num_attention_heads": 6, "num_hidden_layers": 2, "window_size": 14, "window_block_indices": [0],
                                     "residual_block_indices": [1], "use_relative_position_embeddings": True, "out_features": ["stage2"]}},
    "aya_vision": {"vision_config": {"model_type": "siglip_vision_model", "hidden_size": 1152, "num_attention_heads": 16, "num_hidden_layers": 2}},
    "encoder-decoder": {"encoder": BERT, "decoder": READER},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_hidden_layers": 2},
    "musicgen": {"text_encoder": {"model_type": "t5"}, "audio_encoder": {"model_type": "encodec"}, "decoder": {"model_type": "musicgen_decoder"}},
    "speech-encoder-decoder": {"encoder": {"model_type": "wav2vec2"}, "decoder": READER, **STARTS},
    "step3p5": {"sliding_window": 512},
    "step3p7": {"text_config": {"model_type": "step3p5", "sliding_window": 512}},
    "t5gemma2_decoder": {"dropout_rate": 0.0, "attention_dropout": 0.0},
    "t5gemma2_encoder": {"text_config": {"dropout_rate": 0.0}},
    "t5gemma2_text": {"dropout_rate": 0.0, "attention_dropout": 0.0},
    "vision-encoder-decoder": {"encoder": {"model_type": "vit"}, "decoder": {"model_type": "gpt2", "add_cross_attention": True}, **STARTS},
    "vision-text-dual-encoder": {"vision_config": {"model_type": "vit"}, "text_config": BERT},
    "deepseek_ocr2": {"text_config": OCR_TEXT, "vision_config": OCR_VISION},
    "deepseek_ocr2_text": OCR_TEXT,
    "deepseek_ocr2_vision": OCR_VISION,
    "diffusion_gemma": {"text_config": GEMMA_EXPERTS, "vision_config": {"model_type": "gemma4_vision"}},
    "diffusion_gemma_text": GEMMA_EXPERTS,
    "gemma4_assistant": DRAFT,
    "gemma4_unified_assistant": DRAFT,
    "granite4_vision": {"text_config": {"model_type": "granite4_vision_text"}, "downsample_rate": "1/2", "deepstack_layer_map": [[-1, 0], [-2, 1]]},
    "higgs_audio_v2_tokenizer": {"acoustic_model_config": {"model_type": "dac", "downsampling_ratios": [8, 5, 4, 2, 3], "upsampling_ratios": [8, 5, 4, 2, 3]}},
    "moonshine_streaming": {"num_key_value_heads": 8},
    "musicgen_melody": {"text_encoder": {"model_type": "t5"}, "audio_encoder": {"model_type": "encodec"}, "decoder": {"model_type": "musicgen_melody_decoder"}},
    "nougat": {"encoder": {"model_type": "donut-swin"}, "decoder": {"model_type": "mbart", "is_decoder": True, "add_cross_attention": True}},
    "qwen3_omni_moe": {"thinker_config": {"text_config": OMNI}},
    "qwen3_omni_moe_text": OMNI,
    "qwen3_omni_moe_thinker": {"text_config": OMNI},
    "qwen3_omni_moe_talker_text": {"shared_expert_intermediate_size": 768},
    "qwen4_exp": {"text_config": INDEXER},
    "qwen4_exp_text": INDEXER,
    "rag": {"question_encoder": {"model_type": "dpr"}, "generator": {"model_type": "bart"}, "architectures": ["RagTokenForGeneration"]},
    "reformer": {"is_decoder": True, "axial_pos_shape": [8, 12], "lsh_attn_chunk_length": 32, "local_attn_chunk_length": 32},
    "autoformer": {"prediction_length": 24},
    "chameleon": IMAGE,
    "cohere_compass": {"text_config": COMPASS},
    "cohere_compass_text": COMPASS,
    "dbrx": {"attn_config": {"rope_theta": 10000.0, "kv_n_heads": 4, "clip_qkv": 8}},
    "deepseek_v2": {"num_experts_per_tok": 2, "n_routed_experts": 8, "n_group": 1, "topk_group": 1},
    "dots1": {"n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1},
    "emu3": IMAGE,
    "esm": {"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32},
    "glm46v": {"text_config": {"model_type": "glm4v_text", "rope_parameters": MROPE}},
    "glm4v": {"text_config": {"model_type": "glm4v_text", "rope_parameters": MROPE}},
    "glm4v_moe": {"text_config": {"model_type": "glm4v_moe_text", "head_dim": 128, "rope_parameters": MROPE}},
    "glm4v_moe_text": {"head_dim": 128, "rope_parameters": MROPE},
    "glm4v_text": {"rope_parameters": MROPE},
    "glm_image": {"text_config": {"model_type": "glm_image_text", "rope_parameters": MROPE}},
    "glm_image_text": {"rope_parameters": MROPE},
    "glmga": {"text_config": {"rope_parameters": MROPE}},
    "hunyuan_v1_dense": {"head_dim": 128},
    "hunyuan_v1_moe": {"head_dim": 128, "num_experts": 4, "moe_topk": 2},
    "hunyuan_vl": {"text_config": {"head_dim": 128, "rope_parameters": XDROPE}},
    "hunyuan_vl_text": {"head_dim": 128, "rope_parameters": XDROPE},
    "idefics3": {"text_config": {"model_type": "llama", "vocab_size": 128259}},
    "informer": {"prediction_length": 24},
    "ministral": {"head_dim": 128},
    "nemotron": {"num_key_value_heads": 8},
    "smolvlm": {"text_config": {"model_type": "llama", "vocab_size": 128259}},
    "time_series_transformer": {"prediction_length": 24},
    "zamba": {"num_hidden_layers": 2, "layers_block_type": ["hybrid", "hybrid"]},
    "xmod": {"default_language": "en_XX"},
}


ALONE = ("tvp",)  # code that takes one sample at a time


def small(given):
    """A configuration with few layers: widths stay what the family's own defaults are, and lists with an entry a layer keep one of each kind."""
    if not isinstance(given, dict):
        return given
    out = {k: small(v) for k, v in given.items()}
    for name in COUNTS:
        many = out.get(name)
        if isinstance(many, bool) or not isinstance(many, int) or many <= LAYERS:
            continue
        out[name] = LAYERS
        for key, value in out.items():
            if isinstance(value, list) and len(value) == many:
                out[key] = spread(value)
            if isinstance(value, dict) and value and all(str(k).isdigit() for k in value):
                out[key] = {k: v for k, v in value.items() if int(k) < LAYERS}
        if isinstance(out.get("num_kv_shared_layers"), int):
            out["num_kv_shared_layers"] = 0
    if any(str(s).startswith("stage") for s in out.get("out_features") or []) and any(n in out for n in COUNTS):
        out["out_features"], out["out_indices"] = None, None
    return out


def spread(value):
    """As many entries as there are layers: one of each kind before a second of any."""
    kinds = [v for i, v in enumerate(value) if v not in value[:i]]
    return (kinds + value)[:LAYERS] if len(kinds) > 1 else value[:LAYERS]


def described(transformers, kind):
    """The job and its graph, with few layers if the family takes that, else as its default is."""
    default = {**transformers.CONFIG_MAPPING[kind](**copy.deepcopy(LEFT_OUT.get(kind, {}))).to_dict(), "model_type": kind}
    problem = None
    for given, sizes in ((small(default), (96, 64)), (small(default), (48, 32)), (small(default), (16, 12)), (small(default), (8, 8)), (default, (48, 32))):
        try:
            return read(given, *sizes)
        except Exception as failure:
            problem = problem or failure
    raise problem


def read(given, seq, target):
    job = {"config": given, "batch": 1 if given["model_type"] in ALONE else 2, "seq": seq, "target_seq": target, "param_dtype": "fp32", "optimizer": "adamw"}
    text = _models.describe(job)
    job["task"] = json.loads(text)["plimsoll"]["task"]
    return job, text


def one(transformers, kind, base):
    """Reads one type, in a process of its own."""
    begun = resource.getrusage(resource.RUSAGE_SELF)
    try:
        job, text = described(transformers, kind)
        used = resource.getrusage(resource.RUSAGE_SELF)
        seconds = used.ru_utime + used.ru_stime - begun.ru_utime - begun.ru_stime
        with open(base + ".job.json", "w") as f:
            json.dump({"id": kind, "source": "hf", "seconds": round(seconds, 2), **job}, f, default=str)
        with open(base + ".json.gz", "wb") as f:
            f.write(gzip.compress(text.encode(), 6, mtime=0))
    except BaseException as problem:
        failed(base, str(problem) if isinstance(problem, _models.Refused) else f"{type(problem).__name__}: {problem}"[:400])


def failed(base, why):
    with open(base + ".failure", "w") as f:
        f.write(why)


def forked(transformers, kind, base):
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (EACH, EACH))
        signal.alarm(5 * EACH)
        one(transformers, kind, base)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status and not os.path.exists(base + ".json.gz"):
        late = os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGALRM, signal.SIGKILL)
        failed(base, f"not read within {EACH} seconds of CPU" if late else f"Python ended with status {status}")


def warm():
    """Imports all that reading a model imports."""
    import torch
    import transformers

    torch.set_num_threads(1)
    logging.getLogger("torch").setLevel(logging.CRITICAL)  # inputs that do not fit are tried, too
    transformers.logging.set_verbosity_error()
    transformers.PreTrainedConfig.__repr__ = object.__repr__  # as _models.as_running has it
    tiny = {"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 16, "vocab_size": 32}
    read(tiny, 8, 8)
    return transformers


def main():
    p = argparse.ArgumentParser()
    p.add_argument("out")
    p.add_argument("--seconds", type=float, default=1e9)
    p.add_argument("--only", default="")
    p.add_argument("--shard", default="0/1", help="this process reads every Nth")
    p.add_argument("--again", action="store_true", help="read again what failed before")
    p.add_argument("--all-sizes", action="store_true", help="read each at as many sizes as it takes to leave batch and sequence open: three times as slow")
    o = p.parse_args()
    if not o.all_sizes:
        sizes_of = _models.sizes_of
        _models.sizes_of = lambda request, symbols, corners=False: sizes_of(request, (), False)
    begun, left = time.monotonic(), 0
    transformers = warm()
    os.makedirs(o.out, exist_ok=True)
    me, of = map(int, o.shard.split("/"))
    for kind in sorted(transformers.CONFIG_MAPPING.keys())[me::of]:
        base = os.path.join(o.out, kind.replace("/", "_"))
        wanted = not o.only or any(kind == w or w.endswith("*") and kind.startswith(w[:-1]) for w in o.only.split(","))
        done = os.path.exists(base + ".json.gz") or os.path.exists(base + ".failure") and not o.again
        if done or not wanted:
            continue
        if time.monotonic() - begun > o.seconds:
            left += 1
            continue
        if os.path.exists(base + ".failure"):
            os.remove(base + ".failure")
        forked(transformers, kind, base)
    print(f"{left} left", file=sys.stderr)
    return 75 if left else 0


if __name__ == "__main__":
    sys.exit(main())
