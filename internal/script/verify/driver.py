"""Runs a written plan for a few steps with random weights and tokens, and prints what it took as one line of JSON. Argument: the case's file."""
import contextlib
import io
import json
import pathlib
import statistics
import sys
import time

case = json.loads(pathlib.Path(sys.argv[1]).read_text())
written = pathlib.Path(case["file"])
space = {"__name__": "written", "__file__": str(written)}


def refuse(why):
    print("PLIMSOLL " + json.dumps({"refused": why}))
    sys.exit(0)


def make_model(dtype, **load):
    """As from_pretrained leaves it: on the host, in its type. What is in it does not matter."""
    import torch
    from transformers import AutoConfig
    import transformers

    settings = dict(case["config"])
    config = AutoConfig.for_model(settings.pop("model_type"), **settings)
    config.use_cache = False
    with torch.device("meta"):
        model = getattr(transformers, case["class"]).from_config(config, dtype=dtype, **load)
    model = model.to_empty(device="cpu")
    model.tie_weights()
    return model


def batch():
    import torch

    return torch.randint(0, case["config"]["vocab_size"], (case["micro_batch"], case["seq"]), device="cuda")


def loss_of(model, ids):
    return model(input_ids=ids, labels=ids).loss


def stepping(step):
    import torch

    took = []
    for _ in range(case["steps"]):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        step()
        torch.cuda.synchronize()
        took.append(time.perf_counter() - begun)
    return took[1:]  # the first makes state and workspaces


def batches():
    return (batch() for _ in range(case["accumulate"]))


def run_torch():
    import torch

    load = dict(space.get("LOAD", {}))
    if "quantization_config" in load:
        refuse("a base in four bits is quantized while weights are loaded, and there are none to load here")
    model = space["prepare"](make_model(load.pop("dtype", torch.float32), **load))
    optimizer = space["make_optimizer"](model, lr=1e-5)
    return stepping(lambda: space["train_step"](model, optimizer, batches(), loss_of))


def run_fsdp2():
    """One rank of several: collectives of a fake process group do nothing, memory is that of a rank, time has no communication in it."""
    import torch
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=0, world_size=case["gpus"], store=FakeStore())
    model = make_model(torch.float32)
    model.set_attn_implementation(case["attn"])
    layers = max((m for m in model.modules() if isinstance(m, torch.nn.ModuleList)), key=len)
    model = space["shard"](model, layers)
    optimizer = space["make_optimizer"](model, lr=1e-5)
    return stepping(lambda: space["train_step"](model, optimizer, batches(), loss_of))


def prepared():
    """The model, the arguments and the rows of a written Trainer, limited to a few steps."""
    import torch

    load, args = dict(space["LOAD"]), space["args"]
    if "quantization_config" in load:
        refuse("a base in four bits is quantized while weights are loaded, and there are none to load here")
    args.max_steps, args.save_strategy, args.report_to, args.disable_tqdm, args.logging_strategy = case["steps"], "no", [], True, "no"
    model = space["prepare"](make_model(load.pop("dtype"), **load))
    return model, args, torch.randint(0, case["config"]["vocab_size"], (case["steps"] * case["micro_batch"] * case["accumulate"], case["seq"]))


def timed(make):
    """Trains with a Trainer that is made with a callback, and returns what its steps took."""
    import torch
    import transformers

    took = []

    class Clock(transformers.TrainerCallback):
        def on_step_begin(self, *_, **__):
            torch.cuda.synchronize()
            self.begun = time.perf_counter()

        def on_step_end(self, *_, **__):
            torch.cuda.synchronize()
            took.append(time.perf_counter() - self.begun)

    make([Clock()]).train()
    return took[1:]


def run_trainer():
    import transformers

    model, args, rows = prepared()
    data = [{"input_ids": r, "labels": r} for r in rows]
    return timed(lambda callbacks: transformers.Trainer(model=model, args=args, train_dataset=data, callbacks=callbacks))


def run_trl():
    import tokenizers
    import transformers

    try:
        import datasets
        import trl
    except ImportError as error:
        refuse("%s is not installed" % error.name)
    model, args, rows = prepared()
    args.dataset_kwargs = {"skip_prepare_dataset": True}
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"<pad>": 0, "<eos>": 1}, unk_token="<pad>"))
    words = transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>")
    data = datasets.Dataset.from_dict({"input_ids": rows.tolist(), "labels": rows.tolist()})
    return timed(lambda callbacks: trl.SFTTrainer(model=model, args=args, train_dataset=data, processing_class=words, callbacks=callbacks))


def main():
    sys.path.insert(0, str(written.parent))
    exec(compile(written.read_text(), str(written), "exec"), space)  # sets the allocator before torch is imported
    import torch

    if not torch.cuda.is_available():
        refuse("this machine has no card that PyTorch %s can use" % torch.__version__)
    properties = torch.cuda.get_device_properties(0)
    out = {"card": properties.name, "torch": torch.__version__}
    if case["room"] and case["room"] < properties.total_memory:
        torch.cuda.set_per_process_memory_fraction(case["room"] / properties.total_memory)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            took = globals()["run_" + case["form"]]()
        out["step_ms"] = 1000 * statistics.median(took)
    except torch.OutOfMemoryError as error:
        out["failed"] = str(error).split(".")[0]
    stats = torch.cuda.memory_stats()
    out.update(allocated=stats["allocated_bytes.all.peak"], reserved=stats["reserved_bytes.all.peak"])
    print("PLIMSOLL " + json.dumps(out))


main()
