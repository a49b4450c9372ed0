"""Makes up data for more kinds of scripts: point clouds, time series, stereo, optical flow, super resolution, skeletons, graphs, recommendation, tagging, detection. data.py registers them."""
import gzip
import json
import os
import pickle
import random
import string
import sys


def flat_pictures(folder, size, count):
    """Pictures in one folder."""
    from PIL import Image

    os.makedirs(folder, exist_ok=True)
    for i in range(count):
        Image.effect_noise((size, size), 50).convert("RGB").save(os.path.join(folder, f"{i:03}.png"))


def cells_h5(folder):
    """Volumes with labels, and the configuration of a 3D U-Net on them."""
    import h5py
    import numpy

    os.makedirs(folder, exist_ok=True)
    for part in ("train", "val"):
        with h5py.File(os.path.join(folder, part + ".h5"), "w") as f:
            f["raw"] = numpy.random.randint(0, 255, (96, 192, 192)).astype("uint8")
            f["label"] = numpy.random.randint(0, 2, (96, 192, 192)).astype("uint8")


def enwik8(folder):
    """95 million letters, the first that enwik8.gz would have."""
    os.makedirs(folder, exist_ok=True)
    million = gzip.compress(bytes(random.choices(b"abcdefghijklmnopqrstuvwxyz <>[]", k=1_000_000)), 1)
    with open(os.path.join(folder, "enwik8.gz"), "wb") as f:
        f.write(million * 95)


def clouds_h5(folder):
    """ModelNet40's files of 2,048 points."""
    import h5py
    import numpy

    os.makedirs(folder, exist_ok=True)
    for part, count in (("train", 256), ("test", 64)):
        with h5py.File(os.path.join(folder, f"ply_data_{part}0.h5"), "w") as f:
            f["data"] = numpy.random.uniform(-1, 1, (count, 2048, 3)).astype("float32")
            f["label"] = numpy.random.randint(0, 40, (count, 1)).astype("uint8")


def patches_h5(folder):
    """Patches of grey pictures: SRCNN's and DnCNN's files."""
    import h5py
    import numpy

    os.makedirs(folder, exist_ok=True)
    with h5py.File(os.path.join(folder, "train-sr.h5"), "w") as f:
        f["lr"] = numpy.random.uniform(0, 255, (2000, 33, 33)).astype("float32")
        f["hr"] = numpy.random.uniform(0, 255, (2000, 33, 33)).astype("float32")
    with h5py.File(os.path.join(folder, "eval-sr.h5"), "w") as f:
        for kind in ("lr", "hr"):
            for i in range(5):
                f[f"{kind}/{i}"] = numpy.random.uniform(0, 255, (510, 510)).astype("float32")
    with h5py.File(os.path.join(folder, "train.h5"), "w") as f:
        for i in range(1000):
            f[str(i)] = numpy.random.rand(1, 40, 40).astype("float32")
    with h5py.File(os.path.join(folder, "val.h5"), "w") as f:
        for i in range(4):
            f[str(i)] = numpy.random.rand(1, 481, 321).astype("float32")


def isic(folder):
    """Skin lesions with masks."""
    from PIL import Image

    for part in ("train", "valid", "test"):
        for sub in (part, part + "_GT"):
            os.makedirs(os.path.join(folder, sub), exist_ok=True)
        for i in range(24):
            Image.effect_noise((320, 240), 50).convert("RGB").save(os.path.join(folder, part, f"ISIC_{i:04}.jpg"))
            Image.effect_noise((320, 240), 90).point(lambda v: v > 128 and 255).save(os.path.join(folder, part + "_GT", f"ISIC_{i:04}_segmentation.png"))


def duts(folder):
    """Pictures and what stands out in them, as DUTS names them."""
    from PIL import Image

    for sub in ("im_aug", "gt_aug"):
        os.makedirs(os.path.join(folder, sub), exist_ok=True)
    for i in range(60):
        Image.effect_noise((400, 300), 50).convert("RGB").save(os.path.join(folder, "im_aug", f"p{i:04}.jpg"))
        Image.effect_noise((400, 300), 90).point(lambda v: v > 128 and 255).save(os.path.join(folder, "gt_aug", f"p{i:04}.png"))


def springs(folder):
    """Five particles on springs, as NRI simulates them."""
    import numpy

    os.makedirs(folder, exist_ok=True)
    for part, count, steps in (("train", 2000, 49), ("valid", 256, 49), ("test", 256, 99)):
        numpy.save(os.path.join(folder, f"loc_{part}_springs5.npy"), numpy.random.randn(count, steps, 2, 5))
        numpy.save(os.path.join(folder, f"vel_{part}_springs5.npy"), numpy.random.randn(count, steps, 2, 5))
        numpy.save(os.path.join(folder, f"edges_{part}_springs5.npy"), numpy.random.randint(0, 2, (count, 5, 5)))


def nbody(folder):
    """Five charged particles, as EGNN simulates them."""
    import numpy

    os.makedirs(folder, exist_ok=True)
    for part, count in (("train", 3000), ("valid", 300), ("test", 300)):
        name = f"{part}_charged5_initvel1small.npy"
        numpy.save(os.path.join(folder, "loc_" + name), numpy.random.randn(count, 49, 3, 5))
        numpy.save(os.path.join(folder, "vel_" + name), numpy.random.randn(count, 49, 3, 5))
        numpy.save(os.path.join(folder, "edges_" + name), numpy.random.choice([-1.0, 1.0], (count, 5, 5)))
        numpy.save(os.path.join(folder, "charges_" + name), numpy.random.choice([-1.0, 1.0], (count, 5, 1)))


def transformer_oil(folder):
    """ETTh1.csv: seven readings an hour."""
    import datetime

    os.makedirs(folder, exist_ok=True)
    begin = datetime.datetime(2016, 7, 1)
    with open(os.path.join(folder, "ETTh1.csv"), "w") as f:
        f.write("date,HUFL,HULL,MUFL,MULL,LUFL,LULL,OT\n")
        f.writelines(str(begin + datetime.timedelta(hours=i)) + "," + ",".join(f"{random.gauss(5, 2):.4f}" for _ in range(7)) + "\n" for i in range(17420))


def traffic(folder):
    """Speeds at 207 sensors and their graph, as Graph WaveNet and STGCN read them."""
    import numpy
    import scipy.sparse

    os.makedirs(os.path.join(folder, "sensor_graph"), exist_ok=True)
    os.makedirs(os.path.join(folder, "METR-LA"), exist_ok=True)
    os.makedirs(os.path.join(folder, "metr-la"), exist_ok=True)
    near = (numpy.random.rand(207, 207) < 0.04).astype("float32") + numpy.eye(207, dtype="float32")
    ids = [str(i) for i in range(207)]
    with open(os.path.join(folder, "sensor_graph", "adj_mx.pkl"), "wb") as f:
        pickle.dump((ids, {i: n for n, i in enumerate(ids)}, near), f)
    for part, count in (("train", 640), ("val", 128), ("test", 128)):
        numpy.savez(os.path.join(folder, "METR-LA", part + ".npz"), x=numpy.random.rand(count, 12, 207, 2).astype("float32"), y=numpy.random.rand(count, 12, 207, 2).astype("float32"))
    scipy.sparse.save_npz(os.path.join(folder, "metr-la", "adj.npz"), scipy.sparse.csc_matrix(numpy.maximum(near, near.T)))
    with open(os.path.join(folder, "metr-la", "vel.csv"), "w") as f:
        f.write(",".join(ids) + "\n")
        f.writelines(",".join(f"{random.uniform(20, 70):.2f}" for _ in range(207)) + "\n" for _ in range(3000))


def checkins(folder):
    """Who was where, as LightGCN reads Gowalla: a user and the places of a line."""
    os.makedirs(folder, exist_ok=True)
    for part, count in (("train", 25), ("test", 6)):
        with open(os.path.join(folder, part + ".txt"), "w") as f:
            for user in range(3050):
                places = random.sample(range(5000), count)
                if user == 0:
                    places[0] = 4999
                f.write(f"{user} " + " ".join(map(str, places)) + "\n")


def lego(folder):
    """Blender's views of an object, 400 by 400 after halving."""
    from PIL import Image

    for part, count in (("train", 12), ("val", 4), ("test", 4)):
        os.makedirs(os.path.join(folder, part), exist_ok=True)
        frames = []
        for i in range(count):
            Image.effect_noise((800, 800), 50).convert("RGBA").save(os.path.join(folder, part, f"r_{i}.png"))
            frames.append({"file_path": f"./{part}/r_{i}", "rotation": 0.01, "transform_matrix": [[1, 0, 0, 0.1 * i], [0, 0.7, -0.7, 2.8], [0, 0.7, 0.7, 2.8], [0, 0, 0, 1]]})
        with open(os.path.join(folder, f"transforms_{part}.json"), "w") as f:
            json.dump({"camera_angle_x": 0.69, "frames": frames}, f)


def adain_vgg(folder):
    """A VGG without training, in the file that AdaIN reads. FOLDER is the repository."""
    import importlib.util

    import torch

    spec = importlib.util.spec_from_file_location("adain_net", os.path.join(folder, "net.py"))
    net = importlib.util.module_from_spec(spec)
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(net)
    finally:
        sys.path.remove(folder)
        sys.modules.pop("function", None)
    os.makedirs(os.path.join(folder, "models"), exist_ok=True)
    torch.save(net.vgg.state_dict(), os.path.join(folder, "models", "vgg_normalised.pth"))


def styles(folder):
    """Large pictures, in a folder of their own: the script opens every file that it finds."""
    flat_pictures(os.path.join(folder, "pictures"), size=512, count=24)


def ten_classes(folder):
    """Small pictures of ten classes."""
    for i in range(10):
        flat_pictures(os.path.join(folder, f"class{i}"), size=64, count=20)


def ten_photos(folder):
    """Pictures of ten classes, large enough to be cropped."""
    for i in range(10):
        flat_pictures(os.path.join(folder, f"class{i}"), size=256, count=20)


def skeletons(folder):
    """Two persons of 25 joints in 300 frames."""
    import numpy

    os.makedirs(folder, exist_ok=True)
    for part, count in (("train", 192), ("val", 64)):
        numpy.save(os.path.join(folder, part + "_data_joint.npy"), numpy.random.randn(count, 3, 300, 25, 2).astype("float32"))
        with open(os.path.join(folder, part + "_label.pkl"), "wb") as f:
            pickle.dump(([f"s{i}" for i in range(count)], [i % 60 for i in range(count)]), f)


def molecules(folder):
    """Graphs in the text format of powerful-gnns."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "COLLAB.txt"), "w") as f:
        f.write("300\n")
        for g in range(300):
            n = random.randint(40, 110)
            near = {i: set() for i in range(n)}
            for i in range(n):
                for j in random.sample(range(n), 16):
                    if i != j:
                        near[i].add(j)
                        near[j].add(i)
            f.write(f"{n} {g % 3}\n")
            for i in range(n):
                f.write(f"0 {len(near[i])} " + " ".join(map(str, sorted(near[i]))) + "\n")


def noise(path, width, height, known={}):
    """One picture of noise a size: drawing and packing them takes long."""
    import io

    from PIL import Image

    if (width, height) not in known:
        packed = io.BytesIO()
        Image.effect_noise((width, height), 50).convert("RGB").save(packed, "png")
        known[width, height] = packed.getvalue()
    with open(path, "wb") as f:
        f.write(known[width, height])


def sceneflow(folder):
    """Stereo pairs and disparities in SceneFlow's folders."""
    import numpy
    left = "frames_cleanpass"

    def pair(to, name, disparity):
        for side in ("left", "right"):
            os.makedirs(os.path.join(to, side), exist_ok=True)
            noise(os.path.join(to, side, name + ".png"), 960, 540)
        os.makedirs(os.path.join(disparity, "left"), exist_ok=True)
        with open(os.path.join(disparity, "left", name + ".pfm"), "wb") as f:
            f.write(b"Pf\n960 540\n-1.0\n")
            numpy.random.uniform(1, 150, (540, 960)).astype("<f4").tofile(f)

    for i in range(4):
        pair(os.path.join(folder, "monkaa_" + left, "scene"), f"{i:04}", os.path.join(folder, "monkaa_disparity", "scene"))
        for part, sub in (("TRAIN", "A"), ("TRAIN", "B"), ("TRAIN", "C"), ("TEST", "A"), ("TEST", "B"), ("TEST", "C")):
            if i < 2:
                pair(os.path.join(folder, left, part, sub, "0000"), f"{i:04}", os.path.join(folder, "frames_disparity", part, sub, "0000"))
        for a in ("15mm_focallength", "35mm_focallength"):
            for b in ("scene_backwards", "scene_forwards"):
                for c in ("fast", "slow"):
                    if i < 1:
                        pair(os.path.join(folder, "driving_" + left, a, b, c), f"{i:04}", os.path.join(folder, "driving_disparity", a, b, c))


def div2k(folder):
    """High and low resolution, as DIV2K names them."""
    high, low = (os.path.join(folder, "DIV2K", n) for n in ("DIV2K_train_HR", "DIV2K_train_LR_bicubic"))
    os.makedirs(high, exist_ok=True)
    os.makedirs(os.path.join(low, "X2"), exist_ok=True)
    for i in range(1, 45):
        noise(os.path.join(high, f"{i:04}.png"), 640, 480)
        noise(os.path.join(low, "X2", f"{i:04}x2.png"), 320, 240)


def sessions(folder):
    """Clicks of sessions."""
    os.makedirs(folder, exist_ok=True)
    for name, count in (("recSys15TrainOnly.txt", 3000), ("recSys15Valid.txt", 600)):
        with open(os.path.join(folder, name), "w") as f:
            f.write("SessionID,Time,ItemID\n")
            for s in range(count):
                f.writelines(f"{s},{s * 100 + t},{random.randint(1, 12000) if name.endswith('Only.txt') else random.randint(1, 9000)}\n" for t in range(random.randint(2, 12)))
            if name.endswith("Only.txt"):
                f.writelines(f"{count + i // 10},{(count + i // 10) * 100 + i % 10},{i + 1}\n" for i in range(12000))


def omniglot(folder):
    """Omniglot as one array."""
    import numpy

    os.makedirs(folder, exist_ok=True)
    numpy.save(os.path.join(folder, "omniglot.npy"), numpy.random.rand(1623, 20, 28, 28, 1).astype("float32"))


def small_flat(folder):
    """Many small pictures in one folder."""
    flat_pictures(folder, size=32, count=256)


def tagged(folder):
    """Sentences of characters with tags, and both vocabularies."""
    os.makedirs(folder, exist_ok=True)
    letters, tags = [chr(c) for c in range(0x4E00, 0x4E00 + 3000)], ["B", "I", "E", "S"]
    for name, words_ in (("vocab.json", letters), ("tags.json", tags)):
        with open(os.path.join(folder, name), "w") as f:
            json.dump(words_, f)
    with open(os.path.join(folder, "dataset.txt"), "w") as f:
        for _ in range(3000):
            n = random.randint(20, 100)
            f.write("".join(random.choices(letters, k=n)) + "\t" + json.dumps(random.choices(tags, k=n)) + "\n")


UNET3D = """
model: {name: ResidualUNet3D, in_channels: 1, out_channels: 1, layer_order: gcr, f_maps: 32, num_groups: 8, final_sigmoid: true}
loss: {name: BCEDiceLoss, ignore_index: null, skip_last_target: false}
optimizer: {learning_rate: 0.0002, weight_decay: 0.00001}
eval_metric: {name: MeanIoU}
lr_scheduler: {name: MultiStepLR, milestones: [10, 30, 60], gamma: 0.2}
trainer: {eval_score_higher_is_better: true, checkpoint_dir: made/ckpt, resume: null, pre_trained: null, validate_after_iters: 4, log_after_iters: 2, max_num_epochs: 1, max_num_iterations: 8}
loaders:
  dataset: StandardHDF5Dataset
  batch_size: 1
  num_workers: 0
  raw_internal_path: raw
  label_internal_path: label
  train:
    file_paths: [made/train.h5]
    slice_builder: {name: SliceBuilder, patch_shape: [80, 160, 160], stride_shape: [16, 32, 32], skip_shape_check: true}
    transformer: &t
      raw: [{name: Standardize}, {name: ToTensor, expand_dims: true}]
      label: [{name: ToTensor, expand_dims: true}]
  val:
    file_paths: [made/val.h5]
    slice_builder: {name: SliceBuilder, patch_shape: [80, 160, 160], stride_shape: [16, 32, 32], skip_shape_check: true}
    transformer: *t
"""


def unet3d(folder):
    """Volumes and train.yml."""
    cells_h5(folder)
    with open(os.path.join(folder, "train.yml"), "w") as f:
        f.write(UNET3D)


def boxes(folder):
    """Pictures, boxes and data.yaml as YOLO reads them."""
    from PIL import Image

    for part in ("train", "val"):
        for sub in ("images", "labels"):
            os.makedirs(os.path.join(folder, sub, part), exist_ok=True)
        for i in range(48):
            Image.effect_noise((640, 480), 50).convert("RGB").save(os.path.join(folder, "images", part, f"{i:04}.jpg"))
            with open(os.path.join(folder, "labels", part, f"{i:04}.txt"), "w") as f:
                f.writelines(f"{random.randrange(4)} {random.uniform(0.3, 0.7):.4f} {random.uniform(0.3, 0.7):.4f} {random.uniform(0.1, 0.5):.4f} {random.uniform(0.1, 0.5):.4f}\n" for _ in range(random.randint(2, 8)))
    with open(os.path.join(folder, "data.yaml"), "w") as f:
        f.write(f"train: {os.path.abspath(folder)}/images/train\nval: {os.path.abspath(folder)}/images/val\nnc: 4\nnames: [a, b, c, d]\n")


def bmes(folder):
    """Words with tags of named entities, one a line, and vectors of the words."""
    os.makedirs(folder, exist_ok=True)
    vocabulary = ["".join(random.choices(string.ascii_lowercase, k=random.randint(2, 9))) for _ in range(5000)]
    for part, count in (("train", 1500), ("dev", 100), ("test", 100)):
        with open(os.path.join(folder, part + ".bmes"), "w") as f:
            for _ in range(count):
                f.writelines(f"{random.choice(vocabulary)} {random.choice(['O', 'O', 'S-PER', 'S-LOC', 'S-ORG'])}\n" for _ in range(random.randint(8, 60)))
                f.write("\n")
    with open(os.path.join(folder, "sample.word.emb"), "w") as f:
        f.writelines(w + " " + " ".join(f"{random.gauss(0, 0.3):.4f}" for _ in range(50)) + "\n" for w in dict.fromkeys(vocabulary))


kinds = (enwik8, clouds_h5, patches_h5, isic, duts, springs, nbody, transformer_oil, traffic, checkins, lego, adain_vgg, styles, ten_classes, ten_photos, skeletons, molecules, sceneflow, div2k, sessions, omniglot, small_flat, tagged, unet3d, boxes, bmes)
