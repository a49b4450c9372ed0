"""Says who keeps the memory on a card alive: every storage with its name and its role (schema plimsoll.holders/1).

A walk (_walk) finds tensors, _names names them, _roles knows parameters, gradients and optimizer state by the model's own names. Nothing is allocated on the card,
no code of the program's runs, no garbage is collected, and nothing that was found is referenced when it is over.
"""
import contextlib
import gc
import os
import sys
import threading
import time
import types

from . import _frames, _groups, _names, _walk
from ._told import share, title, together  # noqa: F401 (what others ask this module for)
from ._walk import FRAMES, LIBRARY, SCRIPT, SESSION, Root, Walk, is_scripts, local_variables

SECONDS = 2.0  # a walk takes no longer
OBJECTS = 4_000_000  # nor remembers more objects
SHARE = 0.3  # of the time for the script's big containers, before libraries are looked at
RUNNING = 64  # frames told of the line that runs

_hooks = {"watched": False, "used": True}  # used: the program may have packed what it saves for backward


def watch_hooks(torch):
    """Note from now on when a program packs what it saves for backward: up to PyTorch 2.9 such values cannot be looked at without running its code.

    What lies on a card was saved after CUDA was set up: until then nothing has been missed.
    """
    if _hooks["watched"] or hasattr(torch._C._autograd.SavedTensor, "unpack_hook"):
        return
    _hooks.update(watched=True, used=torch.cuda.is_initialized())
    push = torch._C._autograd._push_saved_tensors_default_hooks

    def pushed(*hooks):
        _hooks["used"] = True
        return push(*hooks)

    torch._C._autograd._push_saved_tensors_default_hooks = pushed


def look(torch, kind="cuda", blocks=None, seconds=SECONDS, objects=OBJECTS, facts=None):
    """Walk through this process and describe who holds memory on devices of a kind; blocks are the allocator's, as (device, address): size.

    Never raises: what went wrong is told under walk.problem, with what was found until then.
    """
    began = time.monotonic()
    result = {"schema": "plimsoll.holders/1", "when": "demand", "pid": os.getpid(), "rank": 0, "step": 0, "phase": "", "time": round(time.time(), 3), **(facts or {})}
    result.update(running=[], devices=[], holders=[], walk={"seconds": 0.0, "objects": 0, "tensors": 0, "nodes": 0, "complete": False, "stopped": "problem"})
    try:
        with _undisturbed(torch):
            _describe(Walk(torch, began + seconds, objects, lambda: _hooks["used"]), kind, blocks, result)
    except Exception as problem:
        result["problem"] = repr(problem)[:300]
    result["walk"]["seconds"] = round(time.monotonic() - began, 4)
    return result


def _describe(walk, kind, blocks, result):
    """Walk, and put what was found into the result; what the walk remembers is gone when this returns."""
    try:
        _everything(walk)
        result["running"] = _running()
        result["devices"], result["holders"] = _groups.describe(walk, kind, blocks)
        result["walk"].update(objects=len(walk.parent), tensors=len(walk.tensors), nodes=len(walk.nodes), complete=not walk.stopped, stopped=walk.stopped)
    finally:
        walk.__dict__.clear()  # it knows the frames that know it: without this, only a collection would free what it found


def blocks(snapshot):
    """The allocator's blocks in use in a snapshot, by device and address."""
    found = {}
    for segment in snapshot["segments"]:
        address = segment["address"]
        for block in segment["blocks"]:
            if block["state"] != "inactive":
                found[segment["device"], address] = block["size"]
            address += block["size"]
    return found


@contextlib.contextmanager
def _undisturbed(torch):
    """No garbage collection, no other thread of Python's, no graph recorded, no subclass's or mode's code."""
    collecting, interval, graded = gc.isenabled(), sys.getswitchinterval(), torch._C.is_grad_enabled()
    gc.disable()
    sys.setswitchinterval(60)
    torch._C._set_grad_enabled(False)
    try:
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            yield
    finally:
        torch._C._set_grad_enabled(graded)
        sys.setswitchinterval(interval)
        if collecting:
            gc.enable()


def _everything(walk):
    """Start from the script's variables, then what a session keeps, then graphs, libraries' frames and modules, what is left."""
    frames = _all_frames(walk)
    scripts, libraries = _namespaces(walk)
    for frame, thread, depth in frames:
        if is_scripts(frame.f_code.co_filename):
            _start_frame(walk, frame, thread, depth, SCRIPT)
    for space, name in scripts:
        _start_globals(walk, space, name)
    walk.run(SCRIPT)
    _start_classes(walk, True)
    walk.run(SCRIPT)
    _start_session(walk)
    walk.run(SESSION)
    walk.graphs()
    walk.big(time.monotonic() + SHARE * max(0.0, walk.deadline - time.monotonic()))
    for frame, thread, depth in frames:
        if not is_scripts(frame.f_code.co_filename):
            _start_frame(walk, frame, thread, depth, FRAMES)
            walk.run(FRAMES)  # one by one, outermost first: what a caller holds is its, whatever those it calls name it
    walk.graphs()
    walk.queue.extend(space for space in libraries)
    walk.run(LIBRARY)
    _start_classes(walk, False)
    walk.run(LIBRARY)
    walk.graphs()
    walk.big(walk.deadline)
    walk.unreached()


def _all_frames(walk):
    """Frames of all threads, the main one's first, each from its outermost inward; the probe's own are left out."""
    out = []
    mine, main = threading.get_ident(), threading.main_thread().ident
    current = sys._current_frames()
    for ident in sorted(current, key=lambda i: (i != main, i != mine, i)):
        chain, frame = [], current[ident]
        while frame is not None:
            walk.running[id(frame)] = frame
            walk.parent[id(frame)] = Root("", None, LIBRARY)
            if not frame.f_code.co_filename.startswith(_frames.HERE):
                chain.append(frame)
            frame = frame.f_back
        out.extend((frame, ident, depth) for depth, frame in enumerate(reversed(chain)))
    return out


def _start_frame(walk, frame, thread, depth, rank):
    code = frame.f_code
    space = frame.f_locals if not code.co_flags & 1 else None
    if space is not None and type(space) is dict and id(space) in walk.namespaces and code.co_name == "<module>":
        walk.namespaces[id(space)] = (frame, thread, depth)  # its variables are the module's: told with its frame
        if rank != SCRIPT:
            return
    notebook = space is not None and type(space) is dict and _is_notebook(space)
    for name, value in _ordered(local_variables(frame)):
        if notebook and (name.startswith("_") or name in ("In", "Out")) or _is_sessions(value):
            continue  # told as what they are
        walk.start(value, Root(name, (code.co_filename, frame.f_lineno, _names.qualified(code), code), rank, thread, depth))


def _ordered(pairs):
    """The program's own names before a notebook's: _, _3, Out and In."""
    return sorted(pairs, key=lambda p: (p[0].startswith("_"), p[0] in ("In", "Out")))


def _namespaces(walk):
    """The namespaces of all modules: the script's own, and libraries'."""
    scripts, libraries = [], []
    for name, module in list(sys.modules.items()):
        if type(name) is not str or walk.kind(type(module)) != _walk.MODULE or name.startswith("plimsoll"):
            continue
        space = _walk._NAMESPACE(module)
        if type(space) is not dict or id(space) in walk.namespaces:
            continue
        walk.namespaces[id(space)] = None
        walk.parent[id(space)] = walk.parent[id(module)] = Root(name, None, LIBRARY, kind=name.split(".")[0])
        file = space.get("__file__")
        own = name == "__main__" or type(file) is str and is_scripts(file)
        if own:
            scripts.append((space, name))
        else:
            libraries.append(space)
    scripts.sort(key=lambda s: s[1] != "__main__")
    return scripts, libraries


def _start_globals(walk, space, name):
    told = walk.namespaces[id(space)]
    if told is not None and not _is_notebook(space):
        return  # with its frame
    file = space.get("__file__")
    place = (file if type(file) is str else name, 0, "<module>", None)
    notebook = _is_notebook(space)
    if notebook:
        place = ("the notebook", 0, "", None)
    for key, value in _ordered([(k, v) for k, v in list(space.items()) if type(k) is str and not k.startswith("__")]):
        if notebook and (key in ("_oh", "Out", "In", "_ih", "_dh") or key.startswith("_")) or _is_sessions(value):
            continue
        walk.start(value, Root(key, place, SCRIPT))


def _is_sessions(value):
    """Whether a variable is the interactive session itself, or a method of it such as get_ipython: it keeps every output, which is told as such."""
    if type(value) is types.MethodType:
        value = value.__self__
    module = _names._VARS(type(value)).get("__module__")
    return type(module) is str and module.partition(".")[0] in ("IPython", "ipykernel")


def _is_notebook(space):
    return space.get("Out") is not None and space.get("Out") is space.get("_oh") and type(space.get("_oh")) is dict


def _start_classes(walk, scripts):
    """Class attributes, of the script's classes or of the others, among those that were met."""
    met, walk.classes = walk.classes, []
    for cls in met:
        if scripts and not _names.home(cls)[1]:
            walk.classes.append(cls)
        else:
            walk._follow(cls)


def _start_session(walk):
    """What an interactive session keeps behind the user's back: cell outputs and the last exception."""
    main = sys.modules.get("__main__")
    space = _walk._NAMESPACE(main) if walk.kind(type(main)) == _walk.MODULE else {}
    if _is_notebook(space):
        place = ("the notebook's output history", 0, "", None)
        walk.start(space["_oh"], Root("Out", place, SESSION))
        for key in ("_", "__", "___"):
            if key in space:
                walk.start(space[key], Root(key, ("the notebook's last outputs", 0, "", None), SESSION))
    place = ("the last uncaught exception", 0, "", None)
    session = _walk._NAMESPACE(sys)
    for key in ("last_exc", "last_value", "last_traceback"):
        if session.get(key) is not None:
            walk.start(session[key], Root(f"sys.{key}", place, SESSION))


def _running():
    """The frames of the thread that trains, innermost first."""
    frame = sys._getframe()
    if threading.current_thread() is not threading.main_thread():
        frame = sys._current_frames().get(threading.main_thread().ident, frame)
    found = []
    while frame is not None and len(found) < RUNNING:
        code = frame.f_code
        if not code.co_filename.startswith(_frames.HERE):
            found.append({"file": code.co_filename, "line": frame.f_lineno, "function": code.co_name})
        frame = frame.f_back
    return found
