"""Stops a script at its first optimizer step and writes down the training step it was about to take.

Building the model and loading a batch happen for real, on the CPU. From the first call of a model in training on, tensors carry shapes and no data: the
forward pass, the loss and backward compute nothing. What the script does between its models and backward is kept call by call, exported
together with the models as one graph that ends in the loss, and described as a job.
"""
import ast
import atexit
import logging
import os
import sys
from collections import deque

from . import _files, _frames, _graph, _pretend
from ._start import when_imported

OLDEST = (2, 6)  # torch.export with automatic symbols for the batch
MAX_BACKWARDS = 1024  # micro-batches waited for before the step is taken as never coming


def attach(torch, report):
    capture = Capture(torch, report)
    if tuple(int(n) for n in torch.__version__.split(".")[:2]) < OLDEST:
        capture.fail(f"a capture needs PyTorch {OLDEST[0]}.{OLDEST[1]} or newer, this is {torch.__version__}; any environment with a newer one will do")
    try:
        _attach(torch, capture)
    except Exception as problem:  # running on would train for real
        capture.fail(f"PyTorch {torch.__version__} cannot be captured: {problem!r}")


def _attach(torch, capture):
    _pretend.a_gpu(torch)
    _pretend.without_initialisation(torch)
    when_imported("torch.utils.data.dataloader", _pretend.loaders_at_home)
    when_imported("torch.utils.data.dataloader", capture.watch_loaders)
    capture.install()


class Capture:
    def __init__(self, torch, report):
        self.torch, self.report = torch, report
        self.depth = 0
        self.nodes = []  # calls between the first model call and backward
        self.produced = {}  # id of a tensor -> index of the call that made it
        self.steps_before = deque(maxlen=256)  # calls that turn one tensor into another: what becomes of a batch before the model
        self.arrived = {}  # tensors that the script moved to the GPU, by id: what was done to them before does not count
        self.others = {}  # models that ran without gradients, by id
        self.loss, self.backwards = None, 0
        self.held = []  # results that the script still has names for when backward starts
        self.autocast, self.scaler = None, False
        self.regions, self.unnamed_regions, self.exporting = [], 0, False
        self.model_place, self.batch_sizes, self.in_step = None, [], None
        self.done = False
        self.fake = None

    # Attaching ---------------------------------------------------------------------------------------------------------------

    def install(self):
        torch = self.torch
        from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        self.FakeTensor = FakeTensor
        self.fake = FakeTensorMode(allow_non_fake_inputs=True)
        self._hook_modules()
        self._hook_backward()
        self._hook_scaler()
        self._hook_checkpoint()
        register_optimizer_step_pre_hook(lambda opt, args, kwargs: self.on_step(opt))
        _mode(torch, self).__enter__()
        atexit.register(self.explain_nothing)
        sys.excepthook = lambda *failure: None  # what failed is told, with its line, by whoever asked for the capture
        logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)

    def watch_loaders(self, module):
        original = module.DataLoader.__init__

        def __init__(loader, *args, **kwargs):
            original(loader, *args, **kwargs)
            self.batch_sizes.append(loader.batch_size)

        module.DataLoader.__init__ = __init__
        module._BaseDataLoaderIter.__next__ = _frames.around(module._BaseDataLoaderIter.__next__, self._deeper, self._shallower)

    def _deeper(self):
        self.depth += 1

    def _shallower(self):
        self.depth -= 1

    def _hook_modules(self):
        nn, capture = self.torch.nn, self
        original = nn.Module.__call__

        def __call__(module, *args, **kwargs):
            if capture.exporting:
                return original(module, *args, **kwargs)
            if capture.depth == 0 and next(module.parameters(), None) is not None:
                return capture.run_model(module, args, kwargs)
            if capture.depth > 0:
                capture.see_autocast()
            return original(module, *args, **kwargs)

        nn.Module.__call__ = __call__

    def _hook_backward(self):
        torch = self.torch
        torch.autograd.backward = lambda tensors, *args, **kwargs: self.on_backward(tensors)
        torch.Tensor.backward = lambda tensor, *args, **kwargs: self.on_backward(tensor)

    def _hook_scaler(self):
        torch = self.torch
        kinds = {torch.cuda.amp.GradScaler, getattr(torch.amp, "GradScaler", torch.cuda.amp.GradScaler)}
        for kind in kinds:
            kind.scale = lambda scaler, outputs: self.scaled(scaler, outputs)
            kind.unscale_ = kind.update = lambda scaler, *args, **kwargs: None
            kind.step = lambda scaler, optimizer, *args, **kwargs: optimizer.step(*args, **kwargs)

    def scaled(self, scaler, outputs):
        self.scaler = self.scaler or scaler.is_enabled()
        return outputs

    def _hook_checkpoint(self):
        import torch.utils.checkpoint as module

        def checkpoint(function, *args, use_reentrant=None, context_fn=None, determinism_check=None, debug=None, early_stop=None,
                       preserve_rng_state=None, **kwargs):
            if not self.exporting:
                self.saw_region(function)
            return function(*args, **kwargs)

        module.checkpoint = checkpoint

    def saw_region(self, function):
        owner = getattr(function, "__self__", None) or getattr(getattr(function, "func", None), "__self__", None)
        if isinstance(owner, self.torch.nn.Module):
            self.regions.append(owner)
        elif isinstance(function, self.torch.nn.Module):
            self.regions.append(function)
        else:
            self.unnamed_regions += 1

    # The script runs ---------------------------------------------------------------------------------------------------------

    def trains(self, module):
        return self.torch.is_grad_enabled() and any(p.requires_grad for p in module.parameters())

    def see_autocast(self):
        torch = self.torch
        for device in ("cuda", "cpu"):
            try:
                if torch.is_autocast_enabled(device):
                    self.autocast = torch.get_autocast_dtype(device)
            except TypeError:  # before 2.4 there was one question a device
                if torch.is_autocast_enabled():
                    self.autocast = torch.get_autocast_gpu_dtype()

    def run_model(self, module, args, kwargs):
        """Run a model on tensors without data."""
        torch = self.torch
        trains = self.trains(module)
        if trains:
            self.see_autocast()
            self.model_place = self.model_place or _caller()
        else:
            self.others[id(module)] = module
        unreal = lambda t: t if isinstance(t, self.FakeTensor) else self.fake.from_tensor(t)
        state = {name: unreal(t) for name, t in [*module.named_parameters(remove_duplicate=True), *module.named_buffers(remove_duplicate=True)]}
        self.depth += 1
        try:
            with self.fake:
                out = torch.func.functional_call(module, state, _graph.mapped(torch, args, unreal), _graph.mapped(torch, kwargs, unreal))
        finally:
            self.depth -= 1
        if trains:
            self.keep(module, args, kwargs, out)
        return out

    def keep(self, call, args, kwargs, out):
        """Remember a call whose results may lead to the loss."""
        tensors = _graph.tensors(self.torch, out)
        if self.loss is not None or not tensors:
            return
        self.nodes.append(_graph.Call(call, args, kwargs, out))
        for t in tensors:
            self.produced[id(t)] = len(self.nodes) - 1

    def saw_function(self, function, args, kwargs, out):
        if self.depth or self.exporting or self.loss is not None or not self.torch.is_grad_enabled():
            return
        results = _graph.tensors(self.torch, out)
        learnt = any(t.grad_fn is not None for t in results)  # it hangs on parameters: a model's output, or a penalty on weights
        given = _graph.tensors(self.torch, (args, kwargs))
        if learnt or (results and any(id(t) in self.produced for t in given)):
            self.keep(function, args, kwargs, out)
        elif len(given) == 1 and len(results) == 1 and results[0] is not given[0]:
            self.steps_before.append(_graph.Call(function, args, kwargs, out))

    def saw_arrival(self, tensor):
        """The script moves a tensor to the GPU; in truth it stays where it is."""
        if self.depth == 0 and self.loss is None and not isinstance(tensor, self.torch.nn.Parameter) and len(self.arrived) < 4096:
            self.arrived[id(tensor)] = tensor

    def on_backward(self, tensors):
        roots = _graph.tensors(self.torch, tensors)
        self.backwards += 1
        if self.loss is None and roots:
            if id(roots[0]) not in self.produced:
                self.fail("backward starts from a tensor that no model in training made")
            self.loss = roots[0]
            self.held = _graph.held_by_script(self.torch, self.nodes, self.loss)
        for node in self.nodes:
            if isinstance(node.call, self.torch.nn.Module):
                for p in node.call.parameters():
                    if p.requires_grad and p.grad is None:
                        p.grad = self.torch.zeros_like(p)
        if self.in_step is not None:
            self.finish(self.in_step)
        if self.backwards >= MAX_BACKWARDS:
            self.fail(f"{MAX_BACKWARDS} backward passes without an optimizer step")

    def on_step(self, optimizer):
        if self.loss is None:
            self.in_step = optimizer  # a closure will run the model
            return
        self.finish(optimizer)

    # The end -----------------------------------------------------------------------------------------------------------------

    def finish(self, optimizer):
        """Write graph and job, then end the process: nothing of the training happens."""
        self.exporting = True
        try:
            job, graph = _graph.export(self, optimizer)
        except Exception as problem:
            self.fail(f"the step could not be exported: {type(problem).__name__}: {str(problem)[:600]}")
            return
        _files.write_with(os.path.join(self.report, "graph.json.gz"), lambda f: f.write(graph))
        _files.write_json(os.path.join(self.report, "job.json"), job)
        self.leave(0)

    def fail(self, why):
        """Say why there is no capture, with the script's line, and end."""
        place = _caller()
        _files.write_json(os.path.join(self.report, "failure.json"),
                          {"schema": "plimsoll.capture-failure/1", "why": why, "file": place[0], "line": place[1]})
        self.leave(1)

    def leave(self, code):
        self.done = True
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    def explain_nothing(self):
        """The script ended before any training step."""
        if self.done:
            return
        error = getattr(sys, "last_value", None)
        why, place = "the script ended without an optimizer step", ("", 0)
        if error is not None:
            _frames.strip(error)
            why, place = f"{type(error).__name__}: {str(error)[:600]}", _place_of(error)
        _files.write_json(os.path.join(self.report, "failure.json"),
                          {"schema": "plimsoll.capture-failure/1", "why": why, "file": place[0], "line": place[1]})

    def loop_kind(self):
        """ "plain" when the model is called inside a loop of the same function, whose locals live on into the next iteration."""
        name, line = self.model_place or ("", 0)
        try:
            with open(name) as f:
                tree = ast.parse(f.read())
        except (OSError, SyntaxError, ValueError):
            return "function"
        inside = [n for n in ast.walk(tree) if hasattr(n, "lineno") and n.lineno <= line <= (n.end_lineno or n.lineno)]
        functions = [n.lineno for n in inside if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))]
        loops = [n.lineno for n in inside if isinstance(n, (ast.For, ast.While, ast.AsyncFor))]
        return "plain" if loops and max(loops) > max(functions, default=0) else "function"


def _mode(torch, capture):
    """Keeps every tensor on the CPU, answers questions about values that do not exist, and shows the capture each call."""
    from torch.overrides import TorchFunctionMode

    Tensor = torch.Tensor
    stay = {Tensor.cuda, Tensor.pin_memory}
    asks = {Tensor.item: 1.0, Tensor.__float__: 1.0, Tensor.__int__: 1, Tensor.__bool__: False, Tensor.__index__: 1}

    class OnCPU(TorchFunctionMode):
        def __torch_function__(self, function, kinds, args=(), kwargs=None):
            kwargs = kwargs or {}
            if function in stay:
                capture.saw_arrival(args[0])
                return args[0]
            unreal = bool(args) and isinstance(args[0], capture.FakeTensor)
            if unreal and function in asks:
                return asks[function] if args[0].dtype.is_floating_point or function is not Tensor.item else 0
            if unreal and function is Tensor.tolist:
                return torch.ones(args[0].shape).tolist()
            if unreal and function is Tensor.numpy:
                return torch.ones(args[0].shape).numpy()
            if "device" in kwargs:
                kwargs = {**kwargs, "device": _pretend.cpu_for(torch, kwargs["device"])}
            moved = args
            if function is Tensor.to:
                moved = tuple(_pretend.cpu_for(torch, a) for a in args)
            out = function(*moved, **kwargs)
            if function is Tensor.to and any(a is not b for a, b in zip(moved, args)):
                capture.saw_arrival(out)
            else:
                capture.saw_function(function, moved, kwargs, out)
            return out

    return OnCPU()


def _caller():
    frame = next(iter(_frames.script_stack()), None)
    return (frame["file"], frame["line"]) if frame else ("", 0)


def _place_of(error):
    """The innermost line of the script's own in a traceback."""
    place, traceback = ("", 0), error.__traceback__
    while traceback is not None:
        name = traceback.tb_frame.f_code.co_filename
        if "site-packages" not in name and not name.startswith((_frames.HERE, "<frozen")):
            place = (name, traceback.tb_lineno)
        traceback = traceback.tb_next
    return place
