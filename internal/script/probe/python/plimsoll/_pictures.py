"""Inputs of models that see: images, patches, tiles, videos, and what says where they lie."""
from ._fields import read

FILM = 64  # a variant: several images of a sample where there was one, one where there was a video
OWN = 128  # a variant: images have the size that the configuration names, which processors make them
TILES = 256  # a variant: images are cut into tiles of the size that the configuration names, and a small copy of the whole comes with them (Idefics 3, SmolVLM)
CUT = 512  # a variant: images are cut into their patches, each with its rows, columns and channels; with FILM as one sample
FOLDED = 1024  # a variant: the frames of videos are samples of their own
CLASSES = 4  # names of things to look for in an image, where a job does not say
PAIRS = ("efficientloftr", "lightglue", "superglue")  # match one image with another


def side(config, size, *, parts=True):
    """Height and width of an image: as the job says, else as the configuration does."""
    if size.get("image"):
        return size["image"], size["image"]
    return named(config, parts) or (224, 224)


def named(config, parts=True):
    """Height and width of the images that a configuration is for; None where it names none."""
    given = read(config, "image_size", "img_size", "input_size", "input_image_size", "eval_size", "anchor_image_size", "max_img_size", parts=parts)
    patch = read(config, "patch_size")
    if given is None and read(config, "scaled_images_ratios") and patch:
        given = int(patch / min(read(config, "scaled_images_ratios")))
    if given is None and read(config, "channel_multiplier") and read(config, "num_patches"):  # every level but the first halves what the codes of an image are made of
        given = read(config, "num_patches") * 2 ** (len(read(config, "channel_multiplier")) - 1)
    if given is None and read(config, "backbone_feature_sizes"):  # of the first level, which has a quarter of an image's rows
        given = [4 * n for n in read(config, "backbone_feature_sizes")[0]]
    if given is None:
        return None
    if isinstance(given, dict):
        given = [given.get("height", 224), given.get("width", 224)]
    if isinstance(given, (list, tuple)):
        numbers = [n for n in given if isinstance(n, int)] or [224]
        return numbers[0], numbers[1] if len(numbers) > 1 else numbers[0]
    windows = read(config, "num_windows")
    if isinstance(windows, int) and isinstance(patch, int):
        step = windows * patch  # rows of patches are shared out among windows: RF-DETR is trained on 560 pixels, not on the 518 of its positions
        given = -(-int(given) // step) * step
    return int(given), int(given)


def films(config, kind):
    """Whether models of this class are given videos."""
    name = f"{getattr(config, 'model_type', '')} {kind}".lower()
    return any(w in name for w in ("video", "vivit", "timesformer", "x-clip", "xclip", "vjepa", "tvp")) and not any(w in name for w in ("videollama", "video_llama", "smolvlm"))


class Pictures:
    """The part of _inputs.Maker that makes them."""

    def pictures(self):
        """What makes an input, by its name."""
        b, size, c = self.size["batch"], self.size, self.config
        text = lambda: (b, size["seq"])
        return {
            "pixel_values": self.video if self.sees_videos() and not self.variant & FILM else self.image, "pixel_values_videos": self.video, "image": self.image, "images": self.image,
            "prompt_pixel_values": self.image, "prompt_masks": self.image, "flattened_patches": lambda: self.real(b, size.get("seq") or 2048, 2 + (read(c, "patch_size", default=16) ** 2) * 3),
            "spatial_shapes": self.spatial_shapes, "pixel_attention_mask": lambda: self.ones(b, self.patched()[0] ** 2), "pixel_position_ids": self.positions, "pixel_mask": lambda: self.ones(b, *self.side()),
            "grid_thw": self.grid_thw, "image_grid_thw": self.grid_thw, "image_sizes": self.image_sizes, "merge_sizes": lambda: self.ones(b),
            "cross_attention_mask": lambda: self.ones(*text(), 1, read(c, "max_num_tiles", default=4)), "aspect_ratio_ids": lambda: self.ones(b, 1),
            "aspect_ratio_mask": lambda: self.ones(b, 1, read(c, "max_num_tiles", default=4)), "image_attention_mask": lambda: self.ones(*text(), 1), "image_embeds_position_mask": self.latents,
            "visual_feats": lambda: self.real(b, 36, read(c, "visual_feat_dim", default=2048)), "visual_pos": lambda: self.real(b, 36, read(c, "visual_pos_dim", default=4)),
            "visual_embeds": lambda: self.real(b, 36, read(c, "visual_embedding_dim", default=512)),
            "task_inputs": lambda: self.ids(b, read(c, "task_seq_len", default=77)), "classes_input_ids": lambda: self.ids(b * CLASSES, 16), "classes_attention_mask": lambda: self.ones(b * CLASSES, 16),
            "tasks_input_ids": lambda: self.ids(b, 16), "tasks_attention_mask": lambda: self.ones(b, 16), "classes_structure": lambda: self.filled(CLASSES, b), "target_sizes": self.target_sizes,
            "backbone_features": lambda: self.levels(4, 2, 1), "vision_features": lambda: self.features("vision_features"), "vision_pos_embeds": lambda: self.levels(1), "vision_pos_encoding": lambda: self.features("vision_pos_encoding"),
            "decoder_queries": lambda: self.real(b, read(c, "num_queries", default=200), self.width()), "text_features": lambda: self.real(*text(), self.width()), "prompt_features": lambda: self.real(*text(), self.width()),
        }

    def side(self):
        """Height and width of an image: as the job or the configuration says, else as a layer does that takes one size alone (timm)."""
        if self.size.get("image") or named(self.config):
            return side(self.config, self.size)
        sizes = [getattr(m, "img_size", None) for m in self.model.modules() if getattr(m, "strict_img_size", False)]
        return next((tuple(s) for s in sizes if isinstance(s, (list, tuple)) and len(s) == 2), (224, 224))

    def channels(self):
        given = read(self.config, "num_channels", "in_channels", "in_chans", "channels", default=3)
        given = given[0] if isinstance(given, (list, tuple)) else given
        return given if isinstance(given, int) else 3

    def first(self):
        """The first layer that has weights of a product or a convolution: what reads the input."""
        return next((m for m in self.model.modules() if type(m).__name__ in ("Linear", "Conv1d", "Conv2d", "Conv3d")), None)

    def takes_pixels(self):
        """Whether the first layer reads images, whatever forward calls them."""
        first = self.first()
        return type(first).__name__ == "Conv2d" and first.in_channels == self.channels()

    def takes_patches(self):
        """Whether a processor may have cut images into patches already: their grid comes with them, or nothing in the model would cut them."""
        grid = {"grid_thw", "image_grid_thw"} & set(self.parameters)
        return bool(self.patches()) and (bool(grid) or not self.convolves())

    def convolves(self):
        return any(type(m).__name__ in ("Conv2d", "Conv3d") for m in self.model.modules())

    def image(self):
        c, channels = self.config, self.channels()
        height, width = self.side()
        if "target_sizes" in self.parameters:  # the patches of all images beside each other (NaViT)
            rows, patch = self.patched()
            return self.real(1, channels, patch, self.size["batch"] * rows * rows * patch)
        if self.variant & CUT:
            return self.cut()
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
        own, asked = side(self.config, {}), self.side()
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
        height, width = self.side()
        frames = int(self.size.get("frames") or read(c, "num_frames", "frames_per_clip", "num_image_with_embedding", default=8))
        samples = (self.size["batch"] * frames,) if self.variant & FOLDED else (self.size["batch"], frames)
        return self.real(*samples, read(c, "num_channels", "in_channels", "in_chans", default=3), height, width)

    def patches(self):
        return read(self.config, "patch_size", "spatial_patch_size")

    def patched(self):
        """Rows of patches of a square image, and the side of a patch, for models that take patches one after the other (SigLIP 2)."""
        patch = int(self.patches() or 16)
        count, pool = read(self.config, "num_patches"), read(self.config, "pooling_kernel_size", default=1)
        return (int(count**0.5) if isinstance(count, int) else max(self.side()[0] // patch // pool, 1) * pool), patch

    def spatial_shapes(self):
        rows = self.rows() if self.is_part() else self.patched()[0]
        return self.known(lambda: self.torch.tensor([[rows, rows]] * (1 if self.is_part() else self.size["batch"])))  # of every level, or of every image

    def grid(self):
        """Patches of the images of a batch: [frames, rows, columns] of each; the side of one."""
        merge = read(self.config, "spatial_merge_size", "merge_kernel_size", "spatial_merge_kernel_size", "merge_size", default=2)
        merge = merge[0] if isinstance(merge, (list, tuple)) else int(merge)
        patch = self.patches()
        patch = patch[0] if isinstance(patch, (list, tuple)) else int(patch or 14)
        height, width = self.side()
        rows, columns = (max(n // patch // merge, 1) * merge for n in (height, width))
        return (1, rows, columns), patch

    def flat(self):
        """Patches as the processors of Qwen-VL flatten them."""
        (_, rows, columns), patch = self.grid()
        channels = read(self.config, "in_channels", "in_chans", "num_channels", default=3)
        time = read(self.config, "temporal_patch_size", "patch_temporal", default=1)
        return self.real(self.size["batch"] * rows * columns, int(channels) * int(time) * patch * patch)

    def cut(self):
        """Patches with their rows and columns: [channels, rows, columns] of each for a convolution, frames first and channels last for a model without any (Inkling)."""
        (_, rows, columns), patch = self.grid()
        one = (self.channels(), patch, patch) if self.convolves() else (int(read(self.config, "temporal_patch_size", default=1)), patch, patch, self.channels())
        return self.real(*((1,) if self.variant & FILM else ()), self.size["batch"] * rows * columns, *one)

    def target_sizes(self):
        """Rows and columns of patches of each image."""
        rows, _ = self.patched()
        return self.known(lambda: self.torch.tensor([[rows, rows]] * self.size["batch"], dtype=self.torch.int32))

    def rows(self):
        """Rows of the features that one part of a detector gives to the next: patches of the images that SAM 3 is published for, or of those of the job."""
        return max((self.size.get("image") or 1008) // 14, 1)

    def levels(self, *finer):
        """Feature maps of a backbone, finer ones first."""
        return [self.real(self.size["batch"], self.width(), n * self.rows(), n * self.rows()) for n in finer]

    def features(self, name):
        """The coarsest map: as a list, where forward takes one, or as a sequence."""
        return self.levels(1) if "list" in str(self.parameters[name].annotation) else self.sequence()

    def sequence(self):
        return self.real(self.size["batch"], self.rows() ** 2, self.width())

    def is_part(self):
        """Whether a model reads what another one saw (SAM 3's detector)."""
        return bool({"vision_features", "backbone_features"} & set(self.parameters))

    def grid_thw(self):
        one, _ = self.grid()
        return self.known(lambda: self.torch.tensor([one] * self.size["batch"]))

    def latents(self):
        """1 where a sample of text has the queries of an image (KOSMOS-2)."""
        return self.marked(1, read(self.config, "latent_query_num", default=64))

    def image_sizes(self):
        return self.known(lambda: self.torch.tensor([list(self.side())] * self.size["batch"]))

    def positions(self):
        """Column and row of every patch."""
        count = self.made_for("pixel_values").shape[1]
        rows = max(int(count**0.5), 1)

        def make():
            at = self.torch.arange(count)
            return self.torch.stack([at % rows, at // rows], dim=-1).expand(self.size["batch"], count, 2).contiguous()

        return self.known(make)

    def sees_videos(self):
        return films(self.config, self.kind)
