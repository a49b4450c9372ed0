"""Prints how long every sample of a dataset is, in tokens, one a line. The argument is JSON: name, split, config, column, tokenizer."""
import json
import os
import sys

FORMATS = {".json": "json", ".jsonl": "json", ".csv": "csv", ".parquet": "parquet", ".arrow": "arrow", ".txt": "text"}
COLUMNS = ("length", "input_length", "num_tokens", "n_tokens", "input_ids", "messages", "text")  # taken unless one is named, the first that is there


def load(datasets, spec):
    name = spec["name"]
    if os.path.isdir(name) and any(os.path.exists(os.path.join(name, f)) for f in ("state.json", "dataset_dict.json")):
        return datasets.load_from_disk(name)
    kind = FORMATS.get(os.path.splitext(name)[1])
    if kind and os.path.isfile(name):
        return datasets.load_dataset(kind, data_files=name)
    return datasets.load_dataset(name, spec.get("config"))


def one_split(data, split):
    if not hasattr(data, "keys"):
        return data
    names = list(data.keys())
    split = split or ("train" if "train" in names else names[0])
    if split not in names:
        sys.exit(f"there is no split {split!r}; it has {', '.join(names)}: add split={names[0]}")
    return data[split]


def measure(column, spec):
    """How long a value of the column is."""
    tokenizer = []

    def tokens():
        if not tokenizer:
            if not spec.get("tokenizer"):
                sys.exit(f"column {column!r} is text: name the model whose tokenizer counts its tokens with tokenizer=NAME")
            from transformers import AutoTokenizer

            tokenizer.append(AutoTokenizer.from_pretrained(spec["tokenizer"]))
        return tokenizer[0]

    def of(value):
        if isinstance(value, bool) or value is None:
            sys.exit(f"column {column!r} has {value!r}, which is not a sample")
        if isinstance(value, int):
            return value
        if isinstance(value, str):
            return len(tokens()(value)["input_ids"])
        if value and isinstance(value[0], dict):
            return len(tokens().apply_chat_template(value, tokenize=True))
        return len(value)

    return of


def main():
    spec = json.loads(sys.argv[1])
    try:
        import datasets
    except ImportError:
        sys.exit(f"this Python has no datasets; run: {sys.executable} -m pip install datasets")
    try:
        data = one_split(load(datasets, spec), spec.get("split"))
    except Exception as problem:  # noqa: BLE001 whatever the library says of it
        sys.exit(f"{type(problem).__name__}: {str(problem).splitlines()[0][:300] if str(problem) else ''}")
    names = list(data.column_names)
    column = spec.get("column") or next((c for c in COLUMNS if c in names), None)
    if column not in names:
        sys.exit(f"there is no column {spec.get('column') or 'of token ids'}; it has {', '.join(names)}: add column=NAME")
    length = measure(column, spec)
    for rows in data.select_columns([column]).iter(batch_size=1000):
        print("\n".join(str(length(value)) for value in rows[column]))


main()
