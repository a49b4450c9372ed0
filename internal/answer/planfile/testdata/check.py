"""Holds what plimsoll wrote to the library that reads it: check.py FOLDER, with one file for each FORMAT-NAME and plans.json."""
import functools
import inspect
import json
import os
import pathlib
import shlex
import socket
import subprocess
import sys
import tempfile
import types

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("ACCELERATE_USE_CPU", "true")
import torch
from transformers import LlamaConfig, LlamaForCausalLM


def tiny():
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(hidden_size=64, intermediate_size=64, num_hidden_layers=4, num_attention_heads=2, vocab_size=64, use_cache=False))


def ids(plan):
    return torch.randint(0, 64, (plan["micro_batch"], 8))


def loss_of(model, batch):
    return model(input_ids=batch, labels=batch).loss


def execute(text):
    space = {"__name__": "written"}
    exec(compile(text, "written.py", "exec"), space)
    return space


def one_step(space, model, plan):
    optimizer = space["make_optimizer"](model, lr=0.1)
    values = lambda: [(p.to_local() if hasattr(p, "to_local") else p).detach().clone() for p in model.parameters()]
    before = values()
    assert space["MICRO_BATCH"] == plan["micro_batch"] and space["ACCUMULATE"] == plan["accumulate"]
    loss = space["train_step"](model, optimizer, [ids(plan) for _ in range(plan["accumulate"])], loss_of)
    assert torch.isfinite(torch.as_tensor(float(loss))), loss
    assert any((a != b).any() for a, b in zip(before, values())), "no parameter changed"
    return optimizer


class Offloaded:
    """torchao's CPUOffloadOptimizer refuses to be made without a GPU: the call is held to its signature, the step runs in the optimizer it was given."""

    def __init__(self):
        from torchao.optim import CPUOffloadOptimizer

        self.real = CPUOffloadOptimizer

    def __call__(self, *args, **settings):
        call = inspect.signature(self.real.__init__).bind(None, *args, **settings).arguments
        return call["optimizer_class"](call["params"], **call["kwargs"])


def check_torch(text, plan):
    if plan.get("offload") in ("optimizer", "both"):
        stand = Offloaded()
        sys.modules["torchao.optim"].CPUOffloadOptimizer = stand
    space = execute(text)
    model = space["prepare"](tiny())
    layers = [m for m in model.modules() if type(m).__name__ == "LlamaDecoderLayer"]
    on = [m for m in layers if m.gradient_checkpointing or isinstance(m.forward, functools.partial)]
    assert len(on) == {"none": 0, "full": 4}.get(plan["checkpointing"], plan.get("checkpoint_layers")), len(on)
    if plan.get("checkpoint_calls"):
        assert on == [layers[i] for i in plan["checkpoint_calls"]]
    want = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(plan["precision"], torch.float32)
    assert next(model.parameters()).dtype == want
    if plan.get("alloc_conf"):
        assert os.environ["PYTORCH_CUDA_ALLOC_CONF"] == plan["alloc_conf"]
    optimizer = one_step(space, model, plan)
    if plan["optimizer"] == "adamw-8bit" and not plan.get("lora_rank"):  # adapters of the tiny model are too small for it
        assert any(s["state1"].dtype == torch.uint8 for s in optimizer.state.values()), "no state of eight bits"


def check_trainer(text, plan):
    import transformers

    real = transformers.TrainingArguments
    folder = tempfile.mkdtemp()
    transformers.TrainingArguments = lambda **k: real(**(k | dict(output_dir=folder, use_cpu=True, max_steps=1, report_to=[], save_strategy="no", disable_tqdm=True)))
    try:
        space = execute(text)
        args = space["args"]
    finally:
        transformers.TrainingArguments = real
    assert args.per_device_train_batch_size == plan["micro_batch"] and args.gradient_accumulation_steps == plan["accumulate"]
    assert args.gradient_checkpointing == (plan["checkpointing"] == "full" and plan.get("sharding") != "fsdp2")
    if plan["gpus"] > 1:
        return "arguments accepted"
    model = space["prepare"](tiny())
    trained = {n for n, p in model.named_parameters() if p.requires_grad}
    assert all("lora_" in n for n in trained) == bool(plan.get("lora_rank")), trained
    if plan.get("lora_rank"):
        assert next(p for n, p in model.named_parameters() if "lora_A" in n).shape[0] == plan["lora_rank"]
    data = [{"input_ids": row, "labels": row} for row in torch.randint(0, 64, (plan["micro_batch"] * plan["accumulate"], 8))]
    trainer = transformers.Trainer(model=model, args=args, train_dataset=data)
    assert trainer.train().global_step == 1
    on = [m for m in model.modules() if type(m).__name__ == "LlamaDecoderLayer" and m.gradient_checkpointing]
    assert len(on) == {"none": 0, "full": 4}.get(plan["checkpointing"], plan.get("checkpoint_layers")), len(on)


def check_trl(text, plan):
    """SFTTrainer for a step where TRL is installed; else its arguments are held to those it inherits."""
    import transformers

    here = dict(output_dir=tempfile.mkdtemp(), use_cpu=True, max_steps=1, report_to=[], save_strategy="no", disable_tqdm=True)
    try:
        import datasets
        import trl
    except ImportError:
        trl = types.ModuleType("trl")
        trl.SFTConfig = lambda max_length=None, **k: transformers.TrainingArguments(**(k | here))
        sys.modules["trl"] = trl
        real = None
    else:
        real = trl.SFTConfig
        trl.SFTConfig = lambda **k: real(**(k | here | dict(dataset_kwargs={"skip_prepare_dataset": True})))
    try:
        space = execute(text)
    finally:
        if real is None:
            del sys.modules["trl"]
        else:
            trl.SFTConfig = real
    args = space["args"]
    assert args.per_device_train_batch_size == plan["micro_batch"] and args.gradient_accumulation_steps == plan["accumulate"]
    assert args.gradient_checkpointing == (plan["checkpointing"] == "full") and args.bf16 == (plan["precision"] == "amp-bf16")
    if real is None or plan["gpus"] > 1:
        return "arguments accepted" if real else "arguments of the Trainer accepted: TRL is not installed"
    import tokenizers

    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"<pad>": 0, "<eos>": 1}, unk_token="<pad>"))
    words = transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>")
    rows = torch.randint(0, 64, (plan["micro_batch"] * plan["accumulate"], 8)).tolist()
    data = datasets.Dataset.from_dict({"input_ids": rows, "labels": rows})
    model = space["prepare"](tiny())
    assert trl.SFTTrainer(model=model, args=args, train_dataset=data, processing_class=words).train().global_step == 1


def check_torchtune(text, plan):
    import yaml

    settings = yaml.safe_load(text)
    assert settings["batch_size"] == plan["micro_batch"] and settings["gradient_accumulation_steps"] == plan["accumulate"]
    assert settings["enable_activation_checkpointing"] == (plan["checkpointing"] == "full") and settings["dtype"] == plan["precision"]
    assert settings["model"].get("lora_rank", 0) == plan.get("lora_rank", 0) and "lr" not in settings["optimizer"]
    assert isinstance(settings["model"]["rope_base"], int)
    return "parsed only"


def check_accelerate(text, plan):
    from accelerate.commands.config.config_args import load_config_from_file

    with tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False) as f:
        f.write(text)
    config = load_config_from_file(f.name)
    assert config.num_processes == plan["gpus"]
    engine = "zero" in plan.get("sharding", "")
    assert config.mixed_precision == {"amp-bf16": "bf16", "amp-fp16": "fp16"}.get(plan["precision"], plan["precision"] if engine else "no"), config.mixed_precision
    kind = {"fsdp2": "FSDP", "zero2": "DEEPSPEED", "ddp": "MULTI_GPU"}.get(plan.get("sharding"), "NO")
    assert getattr(config.distributed_type, "value", config.distributed_type) == kind, config.distributed_type
    if kind == "FSDP":
        assert config.fsdp_config["fsdp_version"] == 2


def check_deepspeed(text, plan):
    from deepspeed.runtime.config import DeepSpeedConfig

    settings = json.loads(text)
    assert settings["train_batch_size"] == plan["micro_batch"] * plan["accumulate"] * plan["gpus"]
    settings["train_batch_size"] //= plan["gpus"]  # one process reads it here
    assert settings["optimizer"]["params"] == {"lr": "auto", "weight_decay": "auto"}, "a hyper-parameter was invented"
    settings["optimizer"]["params"] = {"lr": 0.1}  # as the Trainer fills it in
    config = DeepSpeedConfig(settings)
    assert config.train_micro_batch_size_per_gpu == plan["micro_batch"] and config.gradient_accumulation_steps == plan["accumulate"]
    stage = {"zero1": 1, "zero2": 2, "zero3": 3}.get(plan.get("sharding"), 2 if plan.get("offload") else 0)
    assert config.zero_optimization_stage == stage
    assert (config.zero_config.offload_optimizer is not None) == bool(plan.get("offload"))
    if pathlib.Path(os.environ["TORCH_EXTENSIONS_DIR"]).with_name("kernels").exists():
        train_with_deepspeed(settings)
        return "trained"
    return "parsed only: make handover compiles what it trains with"


def train_with_deepspeed(settings):
    """One step of the engine on the CPU, in a process of its own: it keeps the kernel library and the process group."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as f:
        json.dump(settings, f)
    alone = dict(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), DS_ACCELERATOR="cpu")
    here = pathlib.Path(__file__)
    run = subprocess.run([sys.executable, str(here.with_name("check_deepspeed.py")), f.name], env=os.environ | alone, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def check_fsdp2(text, plan):
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh

    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    space = execute(text)
    model = tiny()
    model = space["shard"](model, model.model.layers, init_device_mesh("cpu", (1,)))
    one_step(space, model, plan)


def check_lightning(text, plan):
    import lightning

    space = execute(text)

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = space["checkpoint"](tiny()) if "checkpoint" in space else tiny()

        def training_step(self, batch, _):
            return loss_of(self.model, batch)

        def configure_optimizers(self):
            return space["make_optimizer"](self, lr=0.1)

    data = torch.utils.data.DataLoader(torch.randint(0, 64, (plan["micro_batch"] * plan["accumulate"], 8)), batch_size=plan["micro_batch"])
    quiet = dict(accelerator="cpu", devices=1, strategy="auto", max_steps=1, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer = space["make_trainer"](**quiet)
    assert trainer.accumulate_grad_batches == plan["accumulate"]
    trainer.fit(Module(), data)
    assert trainer.global_step == 1


def check_llamafactory(text, plan):
    import yaml

    d = yaml.safe_load(text)
    assert d["per_device_train_batch_size"] == plan["micro_batch"] and d["gradient_accumulation_steps"] == plan["accumulate"]
    assert d["disable_gradient_checkpointing"] == (plan["checkpointing"] == "none") and d["pure_bf16"] == (plan["precision"] == "bf16")
    return "parsed"


def check_axolotl(text, plan):
    import yaml

    settings = yaml.safe_load(text)
    assert settings["micro_batch_size"] == plan["micro_batch"] and settings["gradient_accumulation_steps"] == plan["accumulate"]
    assert settings.get("lora_r", 0) == plan.get("lora_rank", 0) and "learning_rate" not in settings
    return "parsed only"


def check_torchtitan(text, plan):
    import tomllib

    settings = tomllib.loads(text)
    assert settings["training"]["local_batch_size"] == plan["micro_batch"] and "lr" not in settings["optimizer"]
    return "parsed only"


def check_torchrun(text, plan):
    from torch.distributed.run import parse_args

    words = shlex.split(text.splitlines()[-1])
    environment = dict(w.split("=", 1) for w in words[: words.index("torchrun")])
    arguments = words[words.index("torchrun") + 1 :]
    assert int(parse_args(arguments).nproc_per_node) == plan["gpus"]
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "train.py").write_text("import os\nopen('rank' + os.environ['RANK'], 'w').write(os.environ['WORLD_SIZE'])\n")
        run = subprocess.run([sys.executable, "-m", "torch.distributed.run", *arguments], cwd=folder, env=os.environ | environment, capture_output=True, text=True)
        worlds = [p.read_text() for p in pathlib.Path(folder).glob("rank*")]
    assert worlds == [str(plan["gpus"])] * plan["gpus"], run.stderr


def main():
    folder = pathlib.Path(sys.argv[1])
    plans = json.loads((folder / "plans.json").read_text())
    failures = 0
    for path in sorted(folder.glob("*-*.txt")):
        form, name = path.stem.partition("@")[0].split("-", 1)
        if form == "torch" and plans[name]["gpus"] > 1:
            continue  # check_parallel.py
        try:
            how = globals()["check_" + form](path.read_text(), plans[name])
            print("ok", form, name, *([how] if how else []))
        except Exception as error:
            failures += 1
            print("FAILED", form, name, type(error).__name__, error)
    for cards in (2, 4):
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={cards}", str(pathlib.Path(__file__).with_name("check_parallel.py")), str(folder)]
        run = subprocess.run(command, capture_output=True, text=True)
        told = [line for line in run.stdout.splitlines() if line.startswith(("ok ", "FAILED "))]
        print(*told, sep="\n")
        if run.returncode or not told:
            failures += 1
            print(run.stderr[-4000:])
    sys.exit(1 if failures else 0)


main()
