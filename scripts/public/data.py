"""Makes up small data in the formats that the scripts of list.jsonl read. `kinds` names them."""
import gzip
import os
import pickle
import random
import string
import struct

import madeup


def mnist(folder):
    """MNIST's raw files, with so few digits that reading them takes no time; torchvision and the older loaders look for these names."""
    for raw in ("MNIST/raw", "FashionMNIST/raw", "raw"):
        to = os.path.join(folder, raw)
        os.makedirs(to, exist_ok=True)
        for part, count in (("train", 2000), ("t10k", 1000)):
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


def cifar100(folder):
    import numpy

    to = os.path.join(folder, "cifar-100-python")
    os.makedirs(to, exist_ok=True)
    for name, count in (("train", 2560), ("test", 512)):
        with open(os.path.join(to, name), "wb") as f:
            pickle.dump({"data": numpy.random.randint(0, 255, (count, 3072), dtype="uint8"), "fine_labels": [i % 100 for i in range(count)], "coarse_labels": [i % 20 for i in range(count)]}, f)
    with open(os.path.join(to, "meta"), "wb") as f:
        pickle.dump({"fine_label_names": [str(i) for i in range(100)], "coarse_label_names": [str(i) for i in range(20)]}, f)


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
        f.write("".join(random.choices(string.ascii_letters + " ,.!?;:'-&3$\n", k=60000)))


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


def cora(folder):
    """Planetoid's files of a citation graph of Cora's size: 2,708 papers, 1,433 words, 7 classes."""
    import numpy

    os.makedirs(folder, exist_ok=True)
    features = lambda n: (numpy.random.rand(n, 1433) < 0.0127).astype("float32")
    labels = lambda n: numpy.eye(7, dtype="int32")[numpy.random.randint(0, 7, n)]
    all_, classes = features(1708), labels(1708)
    graph = {i: [] for i in range(2708)}
    for _ in range(5278):
        a, b = random.sample(range(2708), 2)
        graph[a].append(b)
        graph[b].append(a)
    parts = {"x": all_[:140], "allx": all_, "tx": features(1000), "y": classes[:140], "ally": classes, "ty": labels(1000), "graph": graph}
    for name, value in parts.items():
        with open(os.path.join(folder, "ind.cora." + name), "wb") as f:
            pickle.dump(value, f)
    with open(os.path.join(folder, "ind.cora.test.index"), "w") as f:
        f.write("\n".join(map(str, range(1708, 2708))) + "\n")


def language(folder):
    """A small language model of transformers' with a tokenizer, and texts as trainers read them: one folder a kind of data set."""
    import json

    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = ["<pad>", "<eos>", "<unk>", *(f"w{i}" for i in range(3996)), "<mask>"]
    tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", mask_token="<mask>", model_max_length=1024)
    fast.chat_template = "{% for m in messages %}{{ m['content'] }} {% endfor %}"
    fast.save_pretrained(os.path.join(folder, "model"))
    config = LlamaConfig(vocab_size=4000, hidden_size=512, intermediate_size=1376, num_hidden_layers=6, num_attention_heads=8, num_key_value_heads=4,
                         max_position_embeddings=1024, pad_token_id=0, bos_token_id=None, eos_token_id=1, dtype=torch.float32)
    LlamaForCausalLM(config).save_pretrained(os.path.join(folder, "model"))
    text = lambda least, most: " ".join(random.choices(words[3:], k=random.randint(least, most)))
    rows = {
        "texts": lambda: {"text": text(60, 300)},
        "preferences": lambda: {"prompt": text(20, 40), "chosen": text(40, 120), "rejected": text(40, 120)},
        "prompts": lambda: {"prompt": text(20, 40)},
        "instructions": lambda: {"instruction": text(10, 40), "input": "", "output": text(40, 160)},
    }
    for name, make in rows.items():
        os.makedirs(os.path.join(folder, name), exist_ok=True)
        for part, count in (("train", 96), ("test", 16)):
            with open(os.path.join(folder, name, part + ".jsonl"), "w") as f:
                f.writelines(json.dumps(make()) + "\n" for _ in range(count))
    with open(os.path.join(folder, "texts.txt"), "w") as f:
        f.writelines(text(60, 300) + "\n" for _ in range(400))
    with open(os.path.join(folder, "rewards.py"), "w") as f:
        f.write("def length(completions, **kwargs):\n    return [float(len(c)) for c in completions]\n")


def wikitext(folder):
    """The one file that Lightning's demonstration data set reads."""
    os.makedirs(folder, exist_ok=True)
    vocabulary = [f"w{i}" for i in range(33277)]
    with open(os.path.join(folder, "wikitext-2.txt"), "w") as f:
        f.write(" ".join(vocabulary) + "\n")
        for _ in range(200):
            f.write(" ".join(random.choices(vocabulary, k=20)) + "\n")


def stories(folder):
    """Shards of tokens as llama2.c pretokenizes them; the first is for validation."""
    import numpy

    os.makedirs(folder, exist_ok=True)
    for part in range(3):
        numpy.random.randint(0, 32000, 100000).astype("uint16").tofile(os.path.join(folder, f"data{part:02}.bin"))


def papers(folder):
    """Cora as the first graph networks read it: a line of words and a class for each paper that cora.cites names."""
    with open(os.path.join(folder, "cora.cites")) as f:
        ids = sorted({i for line in f for i in line.split()}, key=int)
    classes = ["Case", "Genetic", "Neural", "Probabilistic", "Reinforcement", "Rule", "Theory"]
    with open(os.path.join(folder, "cora.content"), "w") as f:
        for n, i in enumerate(ids):
            f.write("\t".join([i, *random.choices("0001", k=1433), classes[n % 7]]) + "\n")


def points(folder):
    """ModelNet10 as clouds of points with normals, a few of each class."""
    names = [f"shape{c}" for c in range(10)]
    os.makedirs(folder, exist_ok=True)
    for part, count in (("train", 8), ("test", 4)):
        with open(os.path.join(folder, f"modelnet10_{part}.txt"), "w") as listed:
            for name in names:
                os.makedirs(os.path.join(folder, name), exist_ok=True)
                for i in range(count):
                    listed.write(f"{name}_{part}{i}\n")
                    with open(os.path.join(folder, name, f"{name}_{part}{i}.txt"), "w") as f:
                        f.writelines(",".join(f"{random.uniform(-1, 1):.5f}" for _ in range(6)) + "\n" for _ in range(1024))
    with open(os.path.join(folder, "modelnet10_shape_names.txt"), "w") as f:
        f.write("\n".join(names) + "\n")


def purchases(folder):
    """made.txt: a user and an item a line, in the order they were bought."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "made.txt"), "w") as f:
        for user in range(1, 901):
            f.writelines(f"{user} {random.randint(1, 3000)}\n" for _ in range(random.randint(5, 120)))


def headlines(folder):
    """Headlines of ten classes by characters, and the vocabulary."""
    letters = [chr(c) for c in range(0x4E00, 0x4E00 + 4000)]
    os.makedirs(os.path.join(folder, "data"), exist_ok=True)
    os.makedirs(os.path.join(folder, "saved_dict"), exist_ok=True)
    for part, count in (("train", 4000), ("dev", 600), ("test", 600)):
        with open(os.path.join(folder, "data", part + ".txt"), "w") as f:
            f.writelines("".join(random.choices(letters, k=random.randint(8, 30))) + f"\t{i % 10}\n" for i in range(count))
    with open(os.path.join(folder, "data", "class.txt"), "w") as f:
        f.write("\n".join(f"class{i}" for i in range(10)) + "\n")
    with open(os.path.join(folder, "data", "vocab.pkl"), "wb") as f:
        pickle.dump({c: i for i, c in enumerate([*letters, "<UNK>", "<PAD>"])}, f)


def triples(folder):
    """A knowledge graph of the size of a small benchmark."""
    os.makedirs(folder, exist_ok=True)
    for name, count in (("entities", 5000), ("relations", 50)):
        with open(os.path.join(folder, name + ".dict"), "w") as f:
            f.writelines(f"{i}\t{name}{i}\n" for i in range(count))
    for part, count in (("train", 40000), ("valid", 200), ("test", 200)):
        with open(os.path.join(folder, part + ".txt"), "w") as f:
            f.writelines(f"entities{random.randrange(5000)}\trelations{random.randrange(50)}\tentities{random.randrange(5000)}\n" for _ in range(count))


def readings(folder):
    """made.txt: 60 sensors, a line an hour."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "made.txt"), "w") as f:
        f.writelines(",".join(f"{random.random():.3f}" for _ in range(60)) + "\n" for _ in range(1500))


def big_pictures(folder):
    pictures(folder, size=288)


kinds = {f.__name__: f for f in (mnist, cifar10, cifar100, words, names, characters, tokens, pictures, big_pictures, masks, cora, language, wikitext, stories, papers, points, purchases, headlines, triples, readings, *madeup.kinds)}


def make(row, folder):
    """The data and folders that a row of list.jsonl wants, once."""
    for kind, places in row.get("data", {}).items():
        for to in [places] if isinstance(places, str) else places:
            made = os.path.join(folder, to, ".made-" + kind)
            if not os.path.exists(made):
                kinds[kind](os.path.join(folder, to))
                open(made, "w").close()
    for to in row.get("folders", []):
        os.makedirs(os.path.join(folder, to), exist_ok=True)
