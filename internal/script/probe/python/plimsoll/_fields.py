"""Fields of the configurations of transformers, which families name differently."""
PARTS = ("vision_config", "image_config", "audio_config", "text_config", "encoder_config", "backbone_config", "encoder", "decoder", "speech_config", "audio_encoder", "text_encoder",
         "semantic_model_config", "sam_config")


def read(config, *names, default=None, parts=True):
    """The first of these fields that a configuration has, its own first, then those of its parts."""
    inner = [getattr(config, p, None) for p in PARTS] if parts else []
    for part in (config, *inner, *(getattr(i, "backbone_config", None) for i in inner)):
        for name in names:
            try:
                value = getattr(part, name, None)
            except Exception:  # properties of configurations may need other fields
                value = None
            if value is not None and value is not False:
                return value
    return default


def text_of(config):
    """The part of a configuration that says how text is read; all of it where there is none, or more than one (MusicGen)."""
    try:
        return config.get_text_config()
    except ValueError:
        return config
