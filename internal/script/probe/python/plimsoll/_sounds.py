"""Inputs of models that hear or speak: spectrograms, sound, codes of sound, and what spoken text is compared with."""
from ._fields import read

SECONDS = 10  # of sound, where a job does not say
FRAMES = 3000  # of a spectrogram: 30 seconds, as Whisper takes
CHANNEL = 8  # a variant: sound has a dimension of channels where it had none, and none where it had one
CODES = (16, 32, 48)  # variants: several codebooks of tokens for each sample: as more samples, last, or second
BESIDE = 512  # a variant: a token of text comes with the codes (Kyutai)
DURATION = 4  # frames that a token is spoken for


class Sounds:
    """The part of _inputs.Maker that makes them."""

    def sounds(self):
        """What makes an input, by its name."""
        b, size, c = self.size["batch"], self.size, self.config
        spoken = lambda: (b, size["seq"])
        return {
            "input_features": self.spectrogram, "audio_mel": self.spectrogram, "input_features_mask": lambda: self.heard("input_features"), "audio_mel_mask": lambda: self.heard("audio_mel"),
            "audio_values": self.sound, "input_values": self.sound, "speech_inputs": self.sound,
            "spectrogram": lambda: self.real(*spoken(), read(c, "model_in_dim", default=80)), "mel_spectrogram": lambda: self.real(b, read(c, "mel_dim", default=80), size.get("frames") or FRAMES // 2),
            "duration_labels": lambda: self.filled(DURATION, *spoken()), "spectrogram_labels": lambda: self.real(b, DURATION * size["seq"], read(c, "num_mel_bins", default=80)),
            "pitch_labels": lambda: self.real(*spoken(), 1), "energy_labels": lambda: self.real(*spoken(), 1), "audio_input_ids": lambda: self.ids(*spoken(), self.books()), "feature_lens": lambda: self.filled(self.frames(read(c, "max_source_positions")), b),
            **self.guided(), "decoder_input_values": lambda: self.real(b, size["target_seq"], read(c, "num_mel_bins", default=80)),
        }

    def guided(self):
        """What turns noise into a spectrogram of speech (the DiT of Qwen2.5-Omni): as many frames as the codes say; training doubles no batch for guidance."""
        c, b = self.config, self.size["batch"]
        repeats, mel = read(c, "repeats", parts=False), read(c, "mel_dim", default=80)
        if not isinstance(repeats, int) or "quantized_code" not in self.parameters:
            return {}
        frames = repeats * self.size["seq"]
        return {
            "hidden_states": lambda: self.real(b, frames, mel), "condition_vector": lambda: self.real(b, frames, mel), "speaker_embedding": lambda: self.real(b, frames, read(c, "enc_emb_dim")),
            "quantized_code": lambda: self.ids(b, self.size["seq"]), "time_step": lambda: self.real(b), "apply_cfg": lambda: False,
        }

    def spectrogram(self):
        """Frames of a spectrogram: bins last, but for models that begin with convolutions over time as Whisper does."""
        c, b = self.config, self.size["batch"]
        frames = self.size.get("frames")
        bins = read(c, "num_mel_bins", "input_dim", "feature_size", "input_feat_per_channel", "n_mels", "input_feat_size", "feature_projection_input_dim", "num_mel_channels", "mel_bins", "mel_channels")
        if self.variant & 4:
            bins = next((m.in_features for m in self.model.modules() if type(m).__name__ == "Linear"), 80)
        elif self.variant & 2 or not isinstance(bins, int):
            bins = 128 if self.variant & 2 else 80
        if "clap" in (getattr(c, "model_type", "") or ""):
            return self.real(b, 1, frames or 1001, bins)
        limit = read(c, "max_source_positions")
        hop = read(c, "hop_length", parts=False)
        if hop and {"input_values", "input_features"} <= set(self.parameters):  # the same sound in both forms, step by step
            return self.real(b, self.samples() // hop, bins)
        if self.packed():
            return self.real(bins, b * self.frames(limit))
        turned = bool(limit and read(c, "num_mel_bins") and "speech_to_text" not in (getattr(c, "model_type", "") or ""))
        if turned != bool(self.variant & 1):
            return self.real(b, bins, self.frames(limit))
        return self.real(b, frames or FRAMES // 2, bins)

    def frames(self, limit=None):
        """Of one spectrogram, where the model has room for so many after its convolutions."""
        each = read(self.config, "audio_length_per_tok", parts=False)
        if isinstance(each, int):  # every token of text is written while so many frames are heard
            return each * self.size["seq"]
        return self.size.get("frames") or (2 * limit if limit else FRAMES)

    def samples(self):
        """Of the sound of one sample of the batch."""
        return self.size.get("frames") or SECONDS * int(read(self.config, "sampling_rate", "sample_rate", default=16000))

    def sound(self):
        c, b = self.config, self.size["batch"]
        if read(c, "max_length") and read(c, "num_mel_bins"):  # AST: a spectrogram by another name
            return self.real(b, self.size.get("frames") or read(c, "max_length"), read(c, "num_mel_bins"))
        samples = self.samples()
        channels = bool(read(c, "audio_channels", "channels") or "codec" in getattr(c, "model_type", "") or read(c, "codebook_size"))
        if channels != bool(self.variant & CHANNEL):
            return self.real(b, int(read(c, "audio_channels", default=1)), samples)
        return self.real(b, samples)

    def books(self):
        """How many codebooks the model's codes of sound have; None for models of text."""
        decoder = getattr(self.config, "decoder", None)
        found = read(self.config, "num_codebooks", "num_channels", parts=False) or decoder is not None and read(decoder, "num_codebooks", parts=False)
        return found if isinstance(found, int) and not isinstance(found, bool) else None

    def writes_codes(self):
        """Whether text goes in and codes come out, by a decoder of their own (MusicGen)."""
        return bool(self.variant & CODES[-1]) and "decoder_input_ids" in self.parameters

    def codes(self, samples, length):
        """The shape of tokens: those of sound may have one of each codebook."""
        books, how = self.books(), self.variant & CODES[-1]
        if not how or not books:
            return samples, length
        books += 1 if self.variant & BESIDE else 0
        return {CODES[0]: (samples * books, length), CODES[1]: (samples, length, books), CODES[2]: (samples, books, length)}[how]

    def packed(self):
        """The spectrograms of a batch one behind the other, as models take them that are told the frames of each."""
        return "feature_lens" in self.parameters

    def heard(self, name):
        """A mask of ones for every frame of a spectrogram."""
        frames = max(self.made_for(name).shape[1:])
        return self.known(lambda: self.torch.ones(self.size["batch"], frames, dtype=self.torch.bool))
