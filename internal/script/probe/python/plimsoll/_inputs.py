"""The inputs of one training step of a model of transformers, from what its forward takes and what its configuration says.

Text, images, videos, spectrograms and sound come in the shapes that the processors of transformers give them. Where the first choice does not run, the next one
is tried: a model that reads text and images is trained on text alone, for example, unless it insists on images. Values are given with inputs whose values decide
about shapes, such as the grids of image patches.
"""
import inspect

from . import _parts, _pictures, _sounds
from ._fields import read
from ._numbers import VALUE
from ._parts import TOGETHER
from ._pictures import CUT, FILM, FOLDED, OWN, TILES, side
from ._sounds import BESIDE, CHANNEL, CODES


class Missing(Exception):
    """A size that the job has to say."""


class TooShort(Missing):
    """Samples that have no room for the image that the job gives them."""


class Sizes(dict):
    """Sizes of a step, and which of them the inputs use."""

    def __init__(self, *args):
        super().__init__(*args)
        self.used = set()

    def __getitem__(self, name):
        self.used.add(name)
        if name not in self and name == "target_seq" and "seq" in self:
            return self["seq"]
        if name not in self:
            raise Missing(f"{name} is missing: set --{name.replace('_', '-')} (\"{name}\" in a job file)")
        return super().__getitem__(name)


class Maker(_sounds.Sounds, _pictures.Pictures, _parts.Parts):
    """Makes inputs by the names that forward functions give them."""

    def __init__(self, torch, config, model, size, dtype, variant=0, tokens=0):
        self.torch, self.config, self.model, self.size, self.dtype = torch, config, model, size, dtype
        self.image_tokens = tokens  # of each sample of text: placeholders of an image
        if variant & OWN:
            self.size = Sizes({k: v for k, v in size.items() if k != "image"})
            self.size.used = size.used
        self.variant = variant  # of spectrograms: 1 turns them, 2 has 128 bins, 4 as many as the first linear layer takes; sums do both. Others: below
        self.parameters = self.taken(model)
        self.kind = type(model).__name__
        self.made = {}

    # Kinds of tensors

    def ids(self, *shape):
        return self.torch.empty(*shape, dtype=self.torch.int64, device="cuda")

    def real(self, *shape):
        return self.torch.empty(*shape, dtype=self.dtype, device="cuda")

    def valued(self, value):
        t = self.torch.empty(tuple(value.shape), dtype=value.dtype, device="cuda")
        setattr(t, VALUE, value)
        return t

    def known(self, make):
        """A tensor whose values are those that a function gives."""
        from torch.utils._python_dispatch import _disable_current_modes

        with _disable_current_modes():
            value = make()
        return self.valued(value)

    def ones(self, *shape):
        return self.known(lambda: self.torch.ones(*shape, dtype=self.torch.int64))

    # Inputs, by name

    def hidden(self):
        if "grid_thw" in self.parameters:
            return self.flat()
        if self.takes_pixels():
            return self.image()
        first = self.first()
        if self.variant & CHANNEL and hasattr(first, "in_channels"):  # codecs: sound itself, or its codes, with channels before time
            return self.real(self.size["batch"], first.in_channels, self.samples() if first.in_channels == 1 else self.size["seq"])
        given = read(self.config, "input_dim", "input_size", parts=False)
        return self.real(self.size["batch"], self.size["seq"], given if isinstance(given, int) else self.width())

    def width(self):
        return read(self.config, "hidden_size", "d_model", "dim", "n_embd", "hidden_dim", "embed_dim", default=768)

    def tokens(self, samples, length):
        """Tokens of text, or of sound."""
        return self.with_image(samples, length) if self.image_tokens else self.ids(*self.codes(samples, length))

    def with_image(self, samples, length):
        """Tokens of samples that begin with an image, as processors write them."""
        from . import _answers

        if self.image_tokens + 3 > length:
            raise TooShort(f"seq {length} is too short: an image takes {self.image_tokens} tokens; set --seq to more than that")
        c = self.config

        def make():
            value = self.torch.full((samples, length), _answers.TOKEN)
            value[:, 2 : 2 + self.image_tokens] = read(c, "image_token_id", "image_token_index", "im_patch_id", parts=False)
            opens = read(c, "vision_start_token_id", "boi_token_id", "image_start_token_id", parts=False)
            if isinstance(opens, int):
                value[:, 1] = opens
            return value

        return self.known(make)

    def token_types(self):
        """1 for the tokens of an image, 0 for those of text."""
        return self.marked(2, self.image_tokens)

    def marked(self, start, count):
        """1 for so many tokens of a sample of text, 0 for the others."""

        def make():
            value = self.torch.zeros(self.size["batch"], self.size["seq"], dtype=self.torch.int64)
            value[:, start : start + count] = 1
            return value

        return self.known(make)

    def filled(self, number, *shape):
        return self.known(lambda: self.torch.full(shape, number))

    def shows_images(self):
        """Whether the job gives every sample of text an image."""
        return bool(self.size.get("image") or self.variant & OWN) and {"input_ids", "pixel_values"} <= set(self.parameters)

    def series(self):
        c, b = self.config, self.size["batch"]
        lags = read(c, "lags_sequence")
        length = read(c, "context_length", default=512) + (max(lags) if isinstance(lags, (list, tuple)) and lags else 0)
        if read(c, "input_size") and lags:
            return self.real(b, length) if read(c, "input_size") == 1 else self.real(b, length, read(c, "input_size"))
        channels = read(c, "num_input_channels")
        return self.real(b, length, channels) if channels else self.real(b, length)

    def covariates(self, length):
        c = self.config
        return self.real(self.size["batch"], length, read(c, "num_time_features", default=0))

    def past(self):
        c = self.config
        lags = read(c, "lags_sequence", default=[0])
        return read(c, "context_length", default=512) + max(lags)

    def made_for(self, name):
        """The input of this name; None where nothing is known about it."""
        b, size, c = self.size["batch"], self.size, self.config
        text = lambda: (b, size["seq"] if size.get("seq") or "Image" not in self.kind else read(c, "n_positions", default=1024))  # ImageGPT reads pixels as tokens
        rules = {
            "input_ids": lambda: self.ids(*text()) if self.writes_codes() else self.tokens(*text()), "decoder_input_ids": lambda: self.tokens(b, size["target_seq"]), "token_type_ids": lambda: self.token_types() if self.shows_images() else self.ids(*text()),
            "attention_mask": lambda: self.ones(*text()), "qformer_input_ids": lambda: self.ids(*text()), "bbox": lambda: self.ids(*text(), 4),
            "hidden_states": self.hidden, "inputs_embeds": lambda: self.real(*text(), self.width()), "query_embeds": lambda: self.real(b, read(c, "num_query_tokens", default=32), self.width()),
            "encoder_hidden_states": lambda: self.sequence() if self.is_part() else self.real(b, size["seq"], read(c, "encoder_hidden_size", "cross_attention_hidden_size", "cross_hidden_size", default=self.width())),
            "mm_token_type_ids": self.token_types,
            "past_values": self.series, "future_values": lambda: self.real(b, read(c, "prediction_length", default=24)),
            "past_time_features": lambda: self.covariates(self.past()), "future_time_features": lambda: self.covariates(read(c, "prediction_length", default=24)),
            "past_observed_mask": lambda: self.real(b, self.past()),
            "states": lambda: self.real(*text(), read(c, "state_dim", default=17)), "actions": lambda: self.real(*text(), read(c, "act_dim", default=4)),
            "rewards": lambda: self.real(*text(), 1), "returns_to_go": lambda: self.real(*text(), 1), "timesteps": lambda: self.ids(*text()),
            "inputs": lambda: self.perceived(),
            "context": lambda: self.real(*text(), self.width()),
            **self.sounds(), **self.pictures(), **self.parts(),
        }
        if name not in self.made:
            self.made[name] = rules[name]() if name in rules else None
        return self.made[name]

    def perceived(self):
        if "input_values" in self.parameters:  # sound, by whichever name the encoder calls it (speech encoder-decoder)
            return self.sound()
        return self.ids(self.size["batch"], self.size["seq"]) if not read(self.config, "d_model") else self.real(self.size["batch"], self.size["seq"], read(self.config, "d_model"))

    def choices(self):
        """Names of inputs to try, the most likely first."""
        takes = [n for n, p in self.parameters.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        required = [n for n in takes if self.parameters[n].default is inspect.Parameter.empty or n == "apply_cfg"]
        if self.shows_images():
            more = [n for n in takes if n in ("image_grid_thw", "mm_token_type_ids", "image_sizes", "spatial_shapes", "aspect_ratio_ids", "aspect_ratio_mask", "cross_attention_mask", "pixel_position_ids", "token_type_ids")]
            sets = dict.fromkeys(tuple(dict.fromkeys(["input_ids", "pixel_values", *required, *m])) for m in (more, []))
            return [(names, variant) for names in sets for variant in (0, OWN, TILES, FILM, OWN | FILM, *((CUT, CUT | FILM) if self.takes_patches() else ()))]
        main = getattr(self.model, "main_input_name", None)
        first = [n for n in ([main] if main in takes else takes[:1]) if n not in required] + required
        text = ["input_ids"] if "input_ids" in takes else []
        decoder = ["decoder_input_ids"] if "decoder_input_ids" in takes else []
        more = [n for n in takes if n in ("pixel_values", "image_grid_thw", "spatial_shapes", "input_features", "input_values", "bbox", "visual_embeds", "visual_feats", "visual_pos", "pixel_values_videos", "flattened_patches", "future_values", "future_time_features",
                                          "states", "actions", "rewards", "returns_to_go", "timesteps", "encoder_hidden_states", "query_embeds", "target_sizes", "grid_thw")]
        if "spatial_shapes" in takes and "pixel_attention_mask" in takes:
            more.append("pixel_attention_mask")
        seen = [n for n in ("pixel_values", "image_attention_mask", "image_embeds_position_mask") if n in takes]
        spoken = [n for n in ("spectrogram_labels", "duration_labels", "pitch_labels", "energy_labels") if n in takes]
        out = [text + [n for n in required if n not in text], first, first + decoder, first + text, text + decoder, first + text + decoder, first + more, first + text + more + decoder, first + text + ["attention_mask"],
               first + text + seen, first + text + more + ["attention_mask"]]
        if self.is_part():
            out.insert(0, first + [n for n in ("vision_pos_embeds", "spatial_shapes", "prompt_features") if n in takes])
        masked = [n for n in takes if n in ("input_features_mask", "audio_mel_mask")]
        out += [first + masked, first + text + masked] if masked else []
        out += [first + spoken] if spoken else []
        out += [[n for n in first if n != "input_ids" or n in required or "inputs_embeds" not in together] + list(together) for together in TOGETHER if set(together) <= set(takes)]
        unique = list(dict.fromkeys(tuple(dict.fromkeys(n for n in names if n in takes)) for names in out))
        return [(names, variant) for names in unique if names for variant in self.variants(set(names))]

    def variants(self, names):
        """Forms of the same inputs to try, the most likely first."""
        if names & {"input_features", "audio_mel"}:
            return range(6)
        if names & {"input_values", "audio_values", "speech_inputs"}:
            return 0, CHANNEL
        if "hidden_states" in names and type(self.first()).__name__ == "Conv1d":
            return 0, CHANNEL
        if names & {"input_ids", "decoder_input_ids"} and self.books() and "pixel_values" not in names:
            return 0, *CODES, CODES[1] | BESIDE
        if "pixel_values" in names and self.sees_videos():
            return 0, FILM, FOLDED
        if "pixel_values" in names and self.takes_patches():
            return 0, FILM, CUT, CUT | FILM
        return (0, FILM) if "pixel_values" in names else (0,)

    def inputs(self, names):
        out = {}
        for name in names:
            made = self.made_for(name)
            if made is None and self.parameters[name].default is inspect.Parameter.empty and not self.may_lack(name):
                raise TypeError(f"nothing is known about the input {name} of {self.kind}.forward")
            if made is not None or self.parameters[name].default is inspect.Parameter.empty:
                out[name] = made
        return out

    def may_lack(self, name):
        """Whether an input has to be given but may be None."""
        said = str(self.parameters[name].annotation)
        return "None" in said or "Optional" in said

    def labels(self, task, given):
        """What the loss of a task compares with; nothing for a task whose targets no script shares."""
        b = self.size["batch"]
        takes = self.parameters
        if task == "question-answering" and "start_positions" in takes:
            return {"start_positions": self.ids(b), "end_positions": self.ids(b)}
        if "labels" not in takes:
            return {}
        if self.variant & CODES[-1] == CODES[0]:  # codes that are as many samples have their targets side by side (MusicGen)
            return {"labels": self.ids(b, self.size["target_seq" if self.writes_codes() else "seq"], self.books())}
        if "context_input_ids" in given:
            return {"labels": self.ids(b, self.size["target_seq"])}
        if task in ("causal-lm", "image-text"):
            same = given.get("input_ids")
            return {"labels": same if same is not None else self.ids(b, self.size["target_seq" if "decoder_input_ids" in takes else "seq"])}
        if task in ("masked-lm", "token-cls"):
            return {"labels": self.ids(b, self.size["seq"])}
        if task in ("seq-cls", "image-cls", "audio-cls", "video-cls"):
            return {"labels": self.ids(b)}
        if task in ("seq2seq-lm", "speech-seq2seq") and "decoder_input_ids" not in takes and "input_ids" in given:
            return {"labels": given["input_ids"] if given["input_ids"].dim() == 2 else self.ids(b, self.size["seq"])}  # a decoder that reads sound: its targets are its own tokens
        if task in ("seq2seq-lm", "speech-seq2seq"):
            return {"labels": self.ids(b, self.size["target_seq"])}
        if task == "ctc":
            return {"labels": self.ids(b, self.size.get("target_seq") or 32)}
        if task == "semantic-seg":
            height, width = side(self.config, self.size)
            return {"labels": self.ids(b, height, width)}
        return {}
