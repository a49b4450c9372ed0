"""Inputs of parts of models, which another part makes that is not there, and of models that read something beside text, images and sound."""
import inspect

from ._fields import read

ATOMS = 8  # of a residue, without hydrogen, on average
BY_KEYWORD = ("t_cond",)  # inputs that models hand on to their layers without naming them
TOGETHER = (  # optional inputs that some models want together
    ("input_values", "pixel_values_videos"), ("input_ids", "patch_ids", "num_patches"), ("inputs_embeds", "patch_embeds"), ("inputs_embeds", "shared_kv_states"), ("input_features", "feature_lens"),
    ("input_ids", "pixel_values", "pixel_attention_mask", "attention_mask", "actions"), ("inputs_embeds",), ("input_ids", "last_hidden_state"), ("input_ids", "t_cond"),
    ("input_ids", "context_input_ids", "context_attention_mask", "doc_scores"),
)


class Parts:
    """The part of _inputs.Maker that makes them."""

    def taken(self, model):
        """The parameters of a model's forward, by name, and those that its layers take by way of it."""
        own = dict(inspect.signature(model.forward).parameters)
        if any(p.kind is p.VAR_KEYWORD for p in own.values()):
            inner = [inspect.signature(type(m).forward).parameters for m in model.modules() if m is not model and "forward" in vars(type(m))]
            own.update({n: taken[n] for taken in inner for n in BY_KEYWORD if n in taken})
        return own

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
            "t_cond": lambda: self.real(1, self.width()),
            **(self.protein() if "atom_inputs" in self.parameters else {}),
            **(self.robot() if {"state", "actions"} <= set(self.parameters) else {}),
        }

    def protein(self):
        """A protein of one chain: its residues, and the atoms of their reference conformers (ESMFold2)."""
        b, length, kind = self.size["batch"], self.size["seq"], self.parameters["atom_inputs"].annotation
        atoms = (b, length * ATOMS)
        of_residues = {name: lambda: self.filled(0, b, length) for name in ("asym_id", "sym_id", "entity_id", "mol_type")}
        row = lambda each, n: self.known(lambda: self.torch.arange(n).repeat_interleave(each).expand(b, -1).contiguous())
        return {
            **of_residues, "token_index": lambda: row(1, length), "residue_index": lambda: row(1, length), "res_type": lambda: self.ids(b, length), "token_bonds": lambda: self.real(b, length, length, 1),
            "atom_inputs": lambda: kind(
                ref_pos=self.real(*atoms, 3), ref_charge=self.real(*atoms), atom_attention_mask=self.filled(True, *atoms), ref_element=self.ids(*atoms), ref_atom_name_chars=self.ids(*atoms, 4),
                ref_space_uid=row(ATOMS, length), atom_to_token=row(ATOMS, length)),
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
            heads, width = (of_layer(c, n, name) for name in ("num_key_value_heads", "head_dim"))
            out.setdefault(kind, tuple(self.real(self.size["batch"], heads, self.size["seq"], width) for _ in range(2)))
        return out


def of_layer(config, n, name):
    """A field of one layer of a configuration whose layers may differ in it."""
    layers = getattr(config, "per_layer_config", None) or {}
    layer = layers[n] if n in layers or not isinstance(layers, dict) else {}
    value = layer.get(name) if isinstance(layer, dict) else getattr(layer, name, None)
    return getattr(config, name) if value is None else value
