"""Inputs of models that hear or speak: spectrograms, sound, codes of sound, and what spoken text is compared with."""
from ._fields import read

SECONDS = 10  # of sound, where a job does not say
FRAMES = 3000  # of a spectrogram: 30 seconds, as Whisper takes
CHANNEL = 8  # a variant: sound has a dimension of channels where it had none, and none where it had one
CODES = (16, 32, 48)  # variants: several codebooks of tokens for each sample: as more samples, last, or second
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
            "pitch_labels": lambda: self.real(*spoken(), 1), "energy_labels": lambda: self.real(*spoken(), 1), "decoder_input_values": lambda: self.real(b, size["target_seq"], read(c, "num_mel_bins", default=80)),
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
        turned = bool(limit and read(c, "num_mel_bins") and "speech_to_text" not in (getattr(c, "model_type", "") or ""))
        if turned != bool(self.variant & 1):
            return self.real(b, bins, frames or (2 * limit if limit else FRAMES))
        return self.real(b, frames or FRAMES // 2, bins)

    def sound(self):
        c, b = self.config, self.size["batch"]
        if read(c, "max_length") and read(c, "num_mel_bins"):  # AST: a spectrogram by another name
            return self.real(b, self.size.get("frames") or read(c, "max_length"), read(c, "num_mel_bins"))
        samples = self.size.get("frames") or SECONDS * int(read(c, "sampling_rate", "sample_rate", default=16000))
        channels = bool(read(c, "audio_channels", "channels") or "codec" in getattr(c, "model_type", "") or read(c, "codebook_size"))
        if channels != bool(self.variant & CHANNEL):
            return self.real(b, int(read(c, "audio_channels", default=1)), samples)
        return self.real(b, samples)

    def codes(self, samples, length):
        """The shape of tokens: those of sound may have one of each codebook."""
        books, how = read(self.config, "num_codebooks", "num_channels", parts=False), self.variant & CODES[-1]
        if not how or not isinstance(books, int):
            return samples, length
        return {CODES[0]: (samples * books, length), CODES[1]: (samples, length, books), CODES[2]: (samples, books, length)}[how]

    def heard(self, name):
        """A mask of ones for every frame of a spectrogram."""
        from torch.utils._python_dispatch import _disable_current_modes

        features = self.made_for(name)
        frames = max(features.shape[1:])
        with _disable_current_modes():
            value = self.torch.ones(self.size["batch"], frames, dtype=self.torch.bool)
        return self.valued(value)
