"""Models of diffusers, by the config.json they are saved with ("_class_name"): trained as diffusers' scripts train them, with the mean squared error against noise.

What forward takes is made by name, from what the configuration says. Widths that it does not say are learnt from the code: a run with the wrong one fails with the one
that the layer takes.
"""
import inspect

from . import _forward, _inputs, _models, _packages

IMAGE, VIDEO, FRAMES, PACKED, SOUND, TURNED, VECTOR, EACH = range(8)  # forms of a sample: (batch, …) with channels first, frames after or before them, tokens, sound, sound with channels last, one vector, a list
MASKED = 8  # with any form: prompts come with a mask
FACTOR = {"AutoencoderDC": 32, "Sana": 32, "StableCascade": 42}  # pixels of a side of an image for each latent, where it is not 8
LATENTS = 64  # of a side, where a configuration does not say: 512 pixels
PIXELS = 256  # of a side, for models that see pixels
FRAME_COUNT = 9  # of a video, latents: 33 frames
SECONDS = 256  # latents of sound
IMAGE_TOKENS = 729  # of an image that conditions a video, as SigLIP sees it
WORDS = 77  # tokens of a prompt where a job does not say: those of CLIP
LONG = 512  # those of T5 and language models
PROMPTS = ("encoder_hidden_states", "encoder_hidden_states_t5", "encoder_hidden_states_2", "audio_encoder_hidden_states", "text_bth", "clip_text")
POOLED = ("pooled_projections", "pooled_embeds", "proj_embedding", "pooled_text_emb")
TIMES = ("timestep", "timesteps", "timestep_r", "r_timestep", "timestep_ratio", "audio_timestep", "t")
MASKS = ("encoder_attention_mask", "encoder_hidden_states_mask", "text_embedding_mask", "text_embedding_mask_t5", "encoder_attention_mask_2", "encoder_mask")
PAIRS = ("original_size", "target_size", "crop_coords")
SAMPLES = ("sample", "hidden_states", "x", "latents", "mel", "z")
GUESSES = {  # fields that say how wide an input is
    "encoder_hidden_states": ("cross_attention_dim", "joint_attention_dim", "encoder_hid_dim", "caption_channels", "text_embed_dim", "text_dim", "cap_feat_dim", "caption_projection_dim", "in_channels_text"),
    "pooled_projections": ("pooled_projection_dim", "pooled_embed_dim"), "pooled_embeds": ("text_emb_dim",), "proj_embedding": ("embedding_dim",), "pooled_text_emb": ("cond_embed_dim",),
    "image_embeddings": ("cross_attention_dim",), "image_embeds": ("image_embed_dim",), "global_hidden_states": ("global_states_input_dim",), "clip_text_pooled": ("clip_text_pooled_in_channels",),
    "cap_feats": ("cap_feat_dim",), "encoder_hidden_states_t5": ("cross_attention_dim_t5", "text_embed_dim_t5"), "text_bth": ("text_in_dim",), "encoder_hidden_states_2": ("text_embed_2_dim",),
}


class Model(_packages.Subject):
    task = "denoising"

    def __init__(self, torch, request):
        import diffusers

        diffusers.utils.logging.set_verbosity_error()
        self.torch, config = torch, request["config"]
        self.version = f"diffusers {diffusers.__version__}"
        self.cls = known(diffusers, config.get("_class_name"))
        try:
            self.model, registered = _packages.made(torch, lambda: self.cls.from_config(dict(config)))
        except ImportError:
            raise
        except Exception as failure:
            raise _models.Refused(f"{self.cls.__name__} cannot be built from this configuration: {type(failure).__name__}: {failure}") from failure
        self.model.to(getattr(torch, _models.WORDS[request.get("param_dtype") or "fp32"]))
        self.created = _models.created(self.model, registered)
        self.config = self.model.config
        self.parameters = {n: p for n, p in inspect.signature(self.model.forward).parameters.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
        self.widths = {}  # of inputs, as they were learnt
        self.values = {}  # of inputs that are no tensors
        self.coder = "Autoencoder" in self.cls.__name__ or self.cls.__name__.startswith(("VQ", "ConsistencyDecoder")) or self.cls.__name__.endswith(("VAE", "Vae"))
        if self.coder:
            self.task = "reconstruction"
        self.said = []

    # What the configuration says

    def read(self, *names, default=None):
        for name in names:
            value = self.config.get(name)
            if isinstance(value, (list, tuple)) and value and isinstance(value[0], int):
                value = value[0]
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
        return default

    def factor(self):
        """Pixels of a side for each latent."""
        if self.coder or self.read("in_channels", default=4) <= 3:
            return 1
        return next((f for word, f in FACTOR.items() if word in self.cls.__name__), 8)

    def side(self, sizes):
        """Height and width of a sample."""
        if sizes.get("image"):
            sizes.used.add("image")
            n = max(sizes["image"] // self.factor(), 1)
            return n, n
        given = self.config.get("sample_size", self.config.get("resolution"))
        if isinstance(given, (list, tuple)) and len(given) >= 2:
            return int(given[-2]), int(given[-1])
        if isinstance(given, int) and given > 0:
            return given, given
        wide, high = self.read("sample_width"), self.read("sample_height")
        if wide and high:
            return high, wide
        n = PIXELS if self.factor() == 1 else LATENTS
        return n, n

    def frames(self, sizes):
        if sizes.get("frames"):
            sizes.used.add("frames")
            return max((sizes["frames"] - 1) // 4 + 1, 1) if not self.coder else sizes["frames"]
        return FRAME_COUNT if not self.coder else 2 * FRAME_COUNT - 1

    def words(self, sizes):
        """Tokens of a prompt."""
        if sizes.get("seq"):
            return sizes["seq"]
        short = self.parameters.get("sample") is not None
        return self.read("text_seq_len", "max_text_seq_length", "max_sequence_length", "text_len", "num_embeddings", default=WORDS if short else LONG)

    # Forms of the sample

    def main(self):
        return next((n for n in SAMPLES if n in self.parameters), None)

    def choices(self):
        if self.main() is None:
            raise _models.Refused(f"nothing is known about the inputs of {self.cls.__name__}: {', '.join(self.parameters)}")
        name = self.cls.__name__
        moving = any(w in name for w in ("3D", "Video", "Wan", "Allegro", "Mochi", "Cosmos", "SpatioTemporal", "Motion", "Magvit", "CogVideo", "VidTok", "I2V", "Temporal"))
        heard = any(w in name for w in ("1D", "Audio", "Oobleck", "Vocoder", "SAME"))
        order = [VIDEO, FRAMES, IMAGE] if moving else [IMAGE, VIDEO]
        if {"img_ids", "img_shapes", "position_ids", "visual_rope_pos"} & set(self.parameters) or "LTX" in name and not self.coder:
            order = [PACKED, *order]
        elif "cap_feats" in self.parameters:
            order = [EACH]
        elif heard:
            order = [SOUND, TURNED, IMAGE]
        elif "proj_embedding" in self.parameters:
            order = [VECTOR]
        order = list(dict.fromkeys([*order, PACKED, SOUND, TURNED, VECTOR]))
        return order[:1] + [form | MASKED for form in order[:1] if set(MASKS) & set(self.parameters)] + order[1:]

    def channels(self):
        if self.main() in self.widths:
            return self.widths[self.main()]
        return self.read("in_channels", "in_channels_visual", "latent_channels", "in_visual_dim", "sample_channels", "embedding_dim", "audio_channels", default=3 if self.coder else 4)

    def sample(self, sizes, form):
        form &= ~MASKED
        b, c = sizes["batch"], self.channels()
        height, width = self.side(sizes)
        if form == IMAGE:
            return self.real(b, c, height, width)
        if form == EACH:
            return self.real(b, c, 1, height, width)
        if form == VIDEO:
            return self.real(b, c, self.frames(sizes), height, width)
        if form == FRAMES:
            return self.real(b, self.frames(sizes), c, height, width)
        if form == PACKED:
            return self.real(b, self.packed(sizes)[0] * self.packed(sizes)[1] * self.moments(sizes), c)
        if form == VECTOR:
            return self.real(b, c)
        long = self.read("sample_size", default=SECONDS) if not self.coder else 2**15
        return self.real(b, c, long) if form == SOUND else self.real(b, long, c)

    def moments(self, sizes):
        """Frames of a sample of tokens."""
        return self.frames(sizes) if "Video" in self.cls.__name__ or "3D" in self.cls.__name__ else 1

    def packed(self, sizes):
        """Rows and columns of tokens: two latents of a side make one where their channels are joined."""
        height, width = self.side(sizes)
        joined = 1 if "LTX" in self.cls.__name__ else 2
        return max(height // joined, 1), max(width // joined, 1)

    # Inputs

    def real(self, *shape):
        return self.torch.empty(*shape, dtype=self.dtype, device="cuda")

    def whole(self, *shape):
        return self.torch.empty(*shape, dtype=self.torch.int64, device="cuda")

    def ones(self, *shape):
        """A mask that hides nothing, whose values modelling code may ask for."""
        from torch.utils._python_dispatch import _disable_current_modes

        made = self.whole(*shape)
        with _disable_current_modes():
            setattr(made, _inputs.VALUE, self.torch.ones(*shape, dtype=self.torch.int64))
        return made

    def width(self, name):
        if name not in self.widths:
            guess = self.read(*GUESSES.get(name, ()), *GUESSES["encoder_hidden_states"] if name in PROMPTS else (), default=None)
            self.widths[name] = guess or 761 + 2 * len(self.widths)  # a width that nothing has: what the layer takes is learnt
        return self.widths[name]

    def given(self, sizes, form):
        """Tensors by name; parts of one argument have its name and a dot in theirs."""
        self.values, out = {}, {}
        main = self.main()
        sample = self.sample(sizes, form)
        if form & ~MASKED == EACH:
            out.update({f"{main}.{i}": self.real(*sample.shape[1:]) for i in range(sizes["batch"])})
        else:
            out[main] = sample
        for name, p in self.parameters.items():
            if name != main:
                self.add(out, name, p.default is inspect.Parameter.empty, sizes, form)
        if not self.coder:
            out["target"] = self.real(*sample.shape)
        return out

    def add(self, out, name, required, sizes, form):
        """Adds the input of a name where it is needed and known."""
        for names, needed, make in self.rules(sizes, form):
            if name in names:
                if required or needed(name):
                    made = make(name)
                    if made is not None:
                        out[name] = made
                return
        if name == "added_cond_kwargs":
            self.conditions(out, sizes["batch"])
        elif name == "controlnet_cond":
            self.control(out, sizes)
        elif name == "image_rotary_emb" and (required or self.config.get("use_rotary_positional_embeddings")):
            self.turning(out, sizes, form)
        elif name == "cap_feats":
            out.update({f"{name}.{i}": self.real(self.words(sizes), self.width(name)) for i in range(sizes["batch"])})
        elif name == "img_shapes":
            self.values[name] = [[(1, *self.packed(sizes))]] * sizes["batch"]
        elif name in ("num_frames", "height", "width") and form & ~MASKED == PACKED:
            self.values[name] = dict(zip(("num_frames", "height", "width"), (self.moments(sizes), *self.packed(sizes))))[name]
        elif name == "conditioning_scale" and required:
            self.values[name] = 1.0

    def rules(self, sizes, form):
        """(names, whether one that may be left out is needed, what it is)."""
        b, has = sizes["batch"], self.config.get
        always, never = lambda name: True, lambda name: False
        axes = len(has("axes_dims_rope") or has("axes_dim") or (0, 0, 0))
        tokens = self.packed(sizes)[0] * self.packed(sizes)[1] * self.moments(sizes)
        return (
            (TIMES, lambda name: name in ("timestep", "timesteps"), lambda name: self.whole(b) if "sample" in self.parameters else self.real(b)),
            (PROMPTS, self.takes, lambda name: self.real(b, self.words(sizes), self.width(name))),
            (POOLED, self.takes, lambda name: self.real(b, self.width(name))),
            (MASKS, lambda name: form & MASKED or name.startswith("text_embedding_mask") or name.endswith("_2") and self.takes("encoder_hidden_states_2"), lambda name: self.ones(b, self.words(sizes))),
            (("guidance",), lambda name: has("guidance_embeds") or has("guidance_embed"), lambda name: self.real(b)),
            (("img_ids",), lambda name: form & ~MASKED == PACKED, lambda name: self.real(tokens, axes)),
            (("txt_ids",), always, lambda name: self.real(self.words(sizes), axes)),
            (("position_ids",), never, lambda name: self.real(self.words(sizes) + tokens, 3)),
            (("class_labels",), lambda name: self.labelled(), lambda name: self.whole(b)),
            (PAIRS, never, lambda name: self.real(b, 2)),
            (("added_time_ids",), always, lambda name: self.real(b, 3)),
            (("fps", "text_lens"), never, lambda name: self.whole(b)),
            (("image_latents", "context_latents"), never, lambda name: self.sample(sizes, form)),
            (("image_embeddings",), always, lambda name: self.real(b, self.width(name))),
            (("image_embeds",), lambda name: has("image_embed_dim"), lambda name: self.real(b, IMAGE_TOKENS, self.width(name))),
            (("image_meta_size",), always, lambda name: self.real(b, 6)),
            (("style",), always, lambda name: self.whole(b)),
            (("clip_text_pooled", "global_hidden_states"), always, lambda name: self.real(b, 1, self.width(name))),
            (("padding_mask",), lambda name: has("concat_padding_mask"), lambda name: self.real(1, 1, *(8 * n for n in self.side(sizes)))),
            (("encoder_hidden_states_llama3",), always, lambda name: self.real(1 + max(has("llama_layers") or (31,)), b, self.words(sizes), (has("caption_channels") or (0, 4096))[-1])),
        )

    def takes(self, name):
        """Whether an input that may be left out is needed, as far as the configuration tells."""
        if name in ("encoder_hidden_states_2",):
            return bool(self.read(*GUESSES[name]))
        if name in ("encoder_hidden_states", "pooled_projections", "pooled_embeds", "encoder_hidden_states_t5"):
            return name != "encoder_hidden_states" or self.read(*GUESSES[name]) is not None or "sample" not in self.parameters and self.cls.__name__ not in ("Transformer2DModel", "TransformerTemporalModel")
        return False

    def labelled(self):
        has = self.config.get
        return bool(has("class_embed_type") in (None, "timestep") and has("num_class_embeds")) or "DiTTransformer" in self.cls.__name__ or has("norm_type") == "ada_norm_zero"

    def conditions(self, out, batch):
        has = self.config.get
        if has("addition_embed_type") == "text_time":
            times = 6 * self.read("addition_time_embed_dim", default=256)
            out["added_cond_kwargs.text_embeds"] = self.real(batch, self.read("projection_class_embeddings_input_dim", default=2816) - times)
            out["added_cond_kwargs.time_ids"] = self.real(batch, 6)
        elif has("addition_embed_type") in ("text_image", "image", "image_hint"):
            out["added_cond_kwargs.image_embeds"] = self.real(batch, self.read("encoder_hid_dim", "cross_attention_dim", default=768))
        elif "PixArt" in self.cls.__name__:
            sized = has("use_additional_conditions")
            sized = has("sample_size") == 128 if sized is None else sized
            if sized:
                out["added_cond_kwargs.resolution"], out["added_cond_kwargs.aspect_ratio"] = self.real(batch, 2), self.real(batch, 1)
            else:
                self.values["added_cond_kwargs"] = {"resolution": None, "aspect_ratio": None}

    def control(self, out, sizes):
        """What steers a ControlNet: an image of its own size where a part embeds it, else latents."""
        if "conditioning_channels" in self.config:
            height, width = (n * 8 for n in self.side(sizes))
            out["controlnet_cond"] = self.real(sizes["batch"], self.read("conditioning_channels", default=3), height, width)
        else:
            out["controlnet_cond"] = self.real(*out[self.main()].shape)

    def turning(self, out, sizes, form):
        """Rotary embeddings that scripts compute beside the model: one row for each token."""
        height, width = self.side(sizes)
        patch = self.read("patch_size", default=1)
        tokens = (height // patch) * (width // patch) * (self.frames(sizes) if form & ~MASKED in (VIDEO, FRAMES) else 1)
        dim = self.read("attention_head_dim", default=64)
        for part in ("0", "1"):
            out[f"image_rotary_emb.{part}"] = self.torch.empty(tokens, dim, dtype=self.torch.float32, device="cuda")

    def forget(self):
        self.widths, self.said = {}, []

    def learn(self, failure):
        said = _packages.misfit(failure)
        if said is None:
            return False
        had, should = said
        name = next((n for n, w in self.widths.items() if w == had), None)
        if name is None and had == self.channels():
            name = self.main()
        if name is None or self.widths.get(name) == should:
            return False
        self.widths[name] = should
        return True

    # The step

    def arguments(self, given):
        out = dict(self.values)
        for name, t in given.items():
            outer, _, inner = name.partition(".")
            if name == "target":
                continue
            if not inner:
                out[name] = t
            elif inner.isdigit():
                out[outer] = (*out.get(outer, ()), t)
            else:
                out.setdefault(outer, {})[inner] = t
        return out

    def step(self, given):
        torch, out = self.torch, self.model(**self.arguments(given))
        tensors = _forward.numbers(torch, out)
        first, target = tensors[0], given[self.main()] if self.coder else given["target"]
        if len(tensors) == target.shape[0] and first.shape == target.shape[1:]:
            first = torch.stack(tensors)
        if first.dim() > 1 and first.shape[1] == 2 * target.shape[1] and first.shape[2:] == target.shape[2:]:
            first = first.chunk(2, dim=1)[0]  # the other half are variances, which scripts do not train
        if first.shape == target.shape:
            return out, torch.nn.functional.mse_loss(first.float(), target.float(), reduction="mean"), "loss"
        self.said = [f"{self.cls.__name__} gives {len(tensors)} tensor{'s' if len(tensors) > 1 else ''} of other sizes than its sample: the step trains the sum of their means, and what else the script trains with it is not counted"]
        return out, torch.stack([t.float().mean() for t in tensors]).sum(), "outputs"

    def checkpointing(self):
        if not getattr(self.cls, "_supports_gradient_checkpointing", False):
            return None
        return lambda on: self.model.enable_gradient_checkpointing() if on else self.model.disable_gradient_checkpointing()

    def notes(self, sizes, form):
        form &= ~MASKED
        height, width = self.side(sizes)
        factor = self.factor()
        out = []
        if form in (IMAGE, VIDEO, FRAMES, PACKED):
            seen = f"{height * factor} × {width * factor} pixels" + (f" ({height} × {width} latents)" if factor > 1 else "")
            moving = f", {self.frames(sizes)} {'frames' if factor == 1 else 'frames of latents'}" if form in (VIDEO, FRAMES) or form == PACKED and self.moments(sizes) > 1 else ""
            out.append(f"samples are {seen}{moving}; --image{' and --frames set' if moving else ' sets'} another size")
        if any(n in self.widths for n in PROMPTS) and not sizes.get("seq"):
            out.append(f"prompts have {self.words(sizes)} tokens; --seq sets another number")
        if not self.coder:
            out.append("the model alone is counted: text encoders and the autoencoder that a script holds on the same card come on top (resident_bytes in a job)")
        elif not self.said:
            out.append("the step trains the mean squared error of what it gives back; a discriminator or a perceptual loss comes on top")
        return out + self.said


def known(diffusers, name):
    """The class of diffusers of this name; refused with the nearest one."""
    import difflib

    from diffusers.models.modeling_utils import ModelMixin

    cls = getattr(diffusers, name, None) if isinstance(name, str) else None
    if isinstance(cls, type) and issubclass(cls, ModelMixin):
        return cls
    near = difflib.get_close_matches(str(name), [n for n in dir(diffusers) if "Model" in n or "Autoencoder" in n], 2, 0.6)
    hint = f"; did you mean {' or '.join(near)}?" if near else "; a newer release may have it"
    raise _models.Refused(f"diffusers {diffusers.__version__} has no model {name!r}{hint}")
