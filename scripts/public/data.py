"""Makes up small data in the formats that the scripts of list.jsonl read. `kinds` names them."""
import gzip
import os
import pickle
import random
import struct


def mnist(folder):
    """MNIST's raw files, with so few digits that reading them takes no time; torchvision and the older loaders look for these names."""
    for raw in ("MNIST/raw", "FashionMNIST/raw", "raw"):
        to = os.path.join(folder, raw)
        os.makedirs(to, exist_ok=True)
        for part, count in (("train", 2048), ("t10k", 1024)):
            images = struct.pack(">IIII", 2051, count, 28, 28) + os.urandom(count * 28 * 28)
            labels = struct.pack(">II", 2049, count) + bytes(random.randrange(10) for _ in range(count))
            for name, data in ((f"{part}-images-idx3-ubyte", images), (f"{part}-labels-idx1-ubyte", labels)):
                with open(os.path.join(to, name), "wb") as f:
                    f.write(data)
                with gzip.open(os.path.join(to, name + ".gz"), "wb", 1) as f:
                    f.write(data)


def cifar10(folder):
    to = os.path.join(folder, "cifar-10-batches-py")
    os.makedirs(to, exist_ok=True)
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    for name in names:
        import numpy

        count = 1024
        with open(os.path.join(to, name), "wb") as f:
            pickle.dump({"data": numpy.random.randint(0, 255, (count, 3072), dtype="uint8"), "labels": [i % 10 for i in range(count)]}, f)
    with open(os.path.join(to, "batches.meta"), "wb") as f:
        pickle.dump({"label_names": [str(i) for i in range(10)]}, f)


def words(folder):
    """train, valid and test.txt of a vocabulary of two thousand words."""
    os.makedirs(folder, exist_ok=True)
    vocabulary = [f"w{i}" for i in range(2000)]
    for part, lines in (("train", 3000), ("valid", 300), ("test", 300)):
        with open(os.path.join(folder, part + ".txt"), "w") as f:
            for _ in range(lines):
                f.write(" " + " ".join(random.choices(vocabulary, k=20)) + " \n")


def names(folder):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "names.txt"), "w") as f:
        f.write("\n".join("".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=random.randint(3, 12))) for _ in range(3000)))


def characters(folder):
    """Shakespeare by characters, as nanoGPT and minGPT read it."""
    import numpy

    os.makedirs(folder, exist_ok=True)
    for part in ("train.bin", "val.bin"):
        numpy.random.randint(0, 65, 60000).astype("uint16").tofile(os.path.join(folder, part))
    with open(os.path.join(folder, "meta.pkl"), "wb") as f:
        pickle.dump({"vocab_size": 65, "itos": {}, "stoi": {}}, f)
    with open(os.path.join(folder, "input.txt"), "w") as f:
        f.write("".join(chr(32 + random.randrange(65)) for _ in range(60000)))


def tokens(folder):
    import numpy

    os.makedirs(folder, exist_ok=True)
    for part in ("train.bin", "val.bin"):
        numpy.random.randint(0, 50257, 200000).astype("uint16").tofile(os.path.join(folder, part))


def pictures(folder, size=64, count=24):
    from PIL import Image

    for sub in ("a", "b"):
        os.makedirs(os.path.join(folder, sub), exist_ok=True)
        for i in range(count):
            Image.effect_noise((size, size), 50).convert("RGB").save(os.path.join(folder, sub, f"{i:03}.jpg"))


def masks(folder):
    """Carvana's folders: images and the masks of two classes."""
    from PIL import Image

    for sub in ("imgs", "masks"):
        os.makedirs(os.path.join(folder, sub), exist_ok=True)
    for i in range(20):
        Image.effect_noise((320, 240), 50).convert("RGB").save(os.path.join(folder, "imgs", f"{i:03}.jpg"))
        Image.effect_noise((320, 240), 90).point(lambda v: v > 128 and 1).save(os.path.join(folder, "masks", f"{i:03}_mask.gif"))


kinds = {f.__name__: f for f in (mnist, cifar10, words, names, characters, tokens, pictures, masks)}
