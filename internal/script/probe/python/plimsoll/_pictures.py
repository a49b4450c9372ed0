"""Inputs of models that see: images, patches, tiles, videos, and what says where they lie."""
from ._fields import read

FILM = 64  # a variant: several images of a sample where there was one, one where there was a video
OWN = 128  # a variant: images have the size that the configuration names, which processors make them
TILES = 256  # a variant: images are cut into tiles of the size that the configuration names, and a small copy of the whole comes with them (Idefics 3, SmolVLM)
PAIRS = ("efficientloftr", "lightglue", "superglue")  # match one image with another


def side(config, size, *, parts=True):
    """Height and width of an image."""
    if size.get("image"):
        return size["image"], size["image"]
    given = read(config, "image_size", "img_size", "input_size", "input_image_size", "eval_size", "anchor_image_size", default=None, parts=parts)
    if given is None and read(config, "scaled_images_ratios") and read(config, "patch_size"):
        given = int(read(config, "patch_size") / min(read(config, "scaled_images_ratios")))
    given = given or 224
    if isinstance(given, dict):
        given = [given.get("height", 224), given.get("width", 224)]
    if isinstance(given, (list, tuple)):
        numbers = [n for n in given if isinstance(n, int)] or [224]
        return numbers[0], numbers[1] if len(numbers) > 1 else numbers[0]
    return int(given), int(given)


class Pictures:
    """The part of _inputs.Maker that makes them."""

    def pictures(self):
        """What makes an input, by its name."""
        b, size, c = self.size["batch"], self.size, self.config
        text = lambda: (b, size["seq"])
        return {
            "pixel_values": self.video if self.sees_videos() and not self.variant & FILM else self.image, "pixel_values_videos": self.video, "image": self.image, "images": self.image,
            "prompt_pixel_values": self.image, "prompt_masks": self.image, "flattened_patches": lambda: self.real(b, size.get("seq") or 2048, 2 + (read(c, "patch_size", default=16) ** 2) * 3),
            "spatial_shapes": self.spatial_shapes, "pixel_attention_mask": lambda: self.ones(b, self.patched()[0] ** 2), "pixel_position_ids": self.positions, "pixel_mask": lambda: self.ones(b, *side(c, size)),
            "grid_thw": self.grid_thw, "image_grid_thw": self.grid_thw, "image_sizes": self.image_sizes, "merge_sizes": lambda: self.ones(b),
            "cross_attention_mask": lambda: self.ones(*text(), 1, read(c, "max_num_tiles", default=4)), "aspect_ratio_ids": lambda: self.ones(b, 1),
            "aspect_ratio_mask": lambda: self.ones(b, 1, read(c, "max_num_tiles", default=4)), "image_attention_mask": lambda: self.ones(*text(), 1), "image_embeds_position_mask": self.latents,
            "visual_feats": lambda: self.real(b, 36, read(c, "visual_feat_dim", default=2048)), "visual_pos": lambda: self.real(b, 36, read(c, "visual_pos_dim", default=4)),
            "visual_embeds": lambda: self.real(b, 36, read(c, "visual_embedding_dim", default=512)),
            "task_inputs": lambda: self.ids(b, read(c, "task_seq_len", default=77)), "classes_input_ids": lambda: self.ids(b * 4, 16), "classes_attention_mask": lambda: self.ones(b * 4, 16),
            "tasks_input_ids": lambda: self.ids(b, 16), "tasks_attention_mask": lambda: self.ones(b, 16),
        }

    def image(self):
        c = self.config
        height, width = side(c, self.size)
        channels = read(c, "num_channels", "in_channels", "in_chans", "channels", default=3)
        channels = channels[0] if isinstance(channels, (list, tuple)) else channels
        channels = channels if isinstance(channels, int) else 3
        if "grid_thw" in self.parameters or "image_grid_thw" in self.parameters:
            return self.flat()
        if {"spatial_shapes", "pixel_position_ids"} & set(self.parameters):
            rows, patch = self.patched()
            return self.real(self.size["batch"], rows * rows, channels * patch * patch)
        if getattr(c, "model_type", "") in PAIRS:
            return self.real(self.size["batch"], 2, channels, height, width)
        tiles = self.tiles()
        if tiles:
            height, width = side(c, {})
            return self.real(self.size["batch"], tiles, channels, height, width)
        if "aspect_ratio_ids" in self.parameters:  # every image is cut into tiles, and filled up to the most there may be
            return self.real(self.size["batch"], 1, read(c, "max_num_tiles", default=4), channels, height, width)
        if "prompt_pixel_values" in self.parameters:  # the prompt's image comes on top of it
            height = height // 2
        return self.real(self.size["batch"], *((1,) if self.variant & FILM and not self.sees_videos() else ()), channels, height, width)

    def tiles(self):
        """How many images of the size that the configuration names a processor makes of one; 0 where it cuts none."""
        own, asked = side(self.config, {}), side(self.config, self.size)
        grids = read(self.config, "image_grid_pinpoints")
        if grids and "image_sizes" in self.parameters:  # LLaVA-NeXT and what follows it: the best of these resolutions, and the whole
            from transformers.image_processing_utils import select_best_resolution

            best = select_best_resolution(asked, grids)
            return (best[0] // own[0]) * (best[1] // own[1]) + 1
        if self.variant & TILES:
            rows, columns = (-(-a // o) for a, o in zip(asked, own))
            return rows * columns + 1 if rows * columns > 1 else 1
        return 0

    def video(self):
        c = self.config
        height, width = side(c, self.size)
        frames = self.size.get("frames") or read(c, "num_frames", "frames_per_clip", "num_image_with_embedding", default=8)
        return self.real(self.size["batch"], int(frames), read(c, "num_channels", "in_channels", "in_chans", default=3), height, width)

    def patches(self):
        return read(self.config, "patch_size", "spatial_patch_size")

    def patched(self):
        """Rows of patches of a square image, and the side of a patch, for models that take patches one after the other (SigLIP 2)."""
        patch = int(self.patches() or 16)
        count = read(self.config, "num_patches")
        return (int(count**0.5) if isinstance(count, int) else max(side(self.config, self.size)[0] // patch, 1)), patch

    def spatial_shapes(self):
        from torch.utils._python_dispatch import _disable_current_modes

        rows, _ = self.patched()
        with _disable_current_modes():
            value = self.torch.tensor([[rows, rows]] * self.size["batch"])
        return self.valued(value)

    def grid(self):
        """Patches of the images of a batch: [frames, rows, columns] of each."""
        from torch.utils._python_dispatch import _disable_current_modes

        merge = read(self.config, "spatial_merge_size", "merge_kernel_size", "spatial_merge_kernel_size", default=2)
        merge = merge[0] if isinstance(merge, (list, tuple)) else int(merge)
        patch = self.patches()
        patch = patch[0] if isinstance(patch, (list, tuple)) else int(patch or 14)
        height, width = side(self.config, self.size)
        rows, columns = (max(n // patch // merge, 1) * merge for n in (height, width))
        return (1, rows, columns), patch, _disable_current_modes

    def flat(self):
        """Patches as the processors of Qwen-VL flatten them."""
        (_, rows, columns), patch, _ = self.grid()
        channels = read(self.config, "in_channels", "in_chans", "num_channels", default=3)
        time = read(self.config, "temporal_patch_size", default=1)
        return self.real(self.size["batch"] * rows * columns, int(channels) * int(time) * patch * patch)

    def grid_thw(self):
        one, _, plain = self.grid()
        with plain():
            value = self.torch.tensor([one] * self.size["batch"])
        return self.valued(value)

    def latents(self):
        """1 where a sample of text has the queries of an image (KOSMOS-2)."""
        from torch.utils._python_dispatch import _disable_current_modes

        count = read(self.config, "latent_query_num", default=64)
        with _disable_current_modes():
            value = self.torch.zeros(self.size["batch"], self.size["seq"], dtype=self.torch.int64)
            value[:, 1 : 1 + count] = 1
        return self.valued(value)

    def image_sizes(self):
        from torch.utils._python_dispatch import _disable_current_modes

        with _disable_current_modes():
            value = self.torch.tensor([list(side(self.config, self.size))] * self.size["batch"])
        return self.valued(value)

    def positions(self):
        return self.ids(self.size["batch"], self.made_for("pixel_values").shape[1], 2)

    def sees_videos(self):
        name = f"{getattr(self.config, 'model_type', '')} {self.kind}".lower()
        return any(w in name for w in ("video", "vivit", "timesformer", "x-clip", "xclip", "vjepa", "tvp")) and not any(w in name for w in ("videollama", "video_llama", "smolvlm"))
