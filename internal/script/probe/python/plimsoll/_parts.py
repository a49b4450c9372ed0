"""Inputs of parts of models, which another part makes that is not there, and of models that read something beside text, images and sound."""
from ._fields import read

TOGETHER = (  # optional inputs that some models want together
    ("input_values", "pixel_values_videos"), ("input_ids", "patch_ids", "num_patches"), ("inputs_embeds", "patch_embeds"), ("inputs_embeds", "shared_kv_states"), ("input_features", "feature_lens"),
    ("input_ids", "pixel_values", "pixel_attention_mask", "attention_mask", "actions"), ("inputs_embeds",), ("input_ids", "last_hidden_state"),
    ("input_ids", "context_input_ids", "context_attention_mask", "doc_scores"),
)


class Parts:
    """The part of _inputs.Maker that makes them."""

    def parts(self):
        """What parts of a model get from another part, which is not there: states in the width that the layer takes which reads them."""
        b, size, c = self.size["batch"], self.size, self.config
        patches = lambda: max(size["seq"] // read(c, "patch_size", default=4), 1)
        wide = lambda name: next((m.in_features for n, m in self.model.named_modules() if n.startswith(name) and hasattr(m, "in_features")), self.width())
        return {
            "patch_embeds": lambda: self.real(b, patches(), wide("patch_embedding_projection")), "patch_ids": lambda: self.filled(0, b, size["seq"]), "num_patches": patches,
            "noise_embeds": lambda: self.real(b, read(c, "block_size", default=16), self.width()), "context_hidden_states": lambda: self.real(b, size["seq"], wide("encoder")),
            **({"shared_kv_states": self.shared, "inputs_embeds": lambda: self.real(b, size["seq"], wide("pre_projection"))} if "shared_kv_states" in self.parameters else {}),
            "context_input_ids": lambda: self.ids(b * read(c, "n_docs", default=5), size["seq"]), "context_attention_mask": lambda: self.ones(b * read(c, "n_docs", default=5), size["seq"]),
            "last_hidden_state": lambda: self.real(b, 1, read(c, "input_size", default=self.width())), "doc_scores": lambda: self.real(b, read(c, "n_docs", default=5)),
            **(self.robot() if {"state", "actions"} <= set(self.parameters) else {}),
        }

    def robot(self):
        """What a model reads that moves a robot, in one step: its state, the images of its cameras, and the actions that follow (PI0)."""
        b, c = self.size["batch"], self.config
        return {
            "state": lambda: self.real(b, read(c, "max_state_dim", default=32)), "actions": lambda: self.real(b, read(c, "chunk_size", default=50), read(c, "max_action_dim", default=32)),
            "pixel_attention_mask": lambda: self.filled(True, b, 1),
        }

    def shared(self):
        """Keys and values of the model that a drafting model reads along with, for every kind of its layers."""
        c, out = self.config.get_text_config(), {}
        for n, kind in enumerate(c.layer_types):
            layer = c.per_layer_config.get(n, {}) if isinstance(getattr(c, "per_layer_config", None), dict) else {}
            heads, width = layer.get("num_key_value_heads", c.num_key_value_heads), layer.get("head_dim", c.head_dim)
            out.setdefault(kind, tuple(self.real(self.size["batch"], heads, self.size["seq"], width) for _ in range(2)))
        return out
