"""Runs Python commands in copies of one process that has imported PyTorch already.

`warm.py serve SOCKET` imports, then forks once for every command it is sent. `warm.py run SOCKET ARGUMENTS…` stands in for an interpreter: it sends its
arguments, environment, folder and standard streams, and ends as the copy ends. What it cannot pass on (options of the interpreter it does not
know, a server that is gone) it runs in a fresh interpreter. For tests alone: starting PyTorch takes seconds, a copy takes milliseconds.
"""
import array
import gc
import json
import os
import signal
import socket
import sys

HEADER = 8


def main():
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        run(sys.argv[2], sys.argv[3:])


# In place of the interpreter ---------------------------------------------------------------------------------------------------


def run(path, arguments):
    python = sys.executable
    connection = socket.socket(socket.AF_UNIX)
    try:
        if not understood(arguments):
            raise OSError
        connection.connect(path)
    except OSError:
        os.execv(python, [python, *arguments])
    asked = json.dumps({"argv": arguments, "env": dict(os.environ), "cwd": os.getcwd(), "me": os.environ.get("PLIMSOLL_WARM", python)}).encode()
    descriptors = array.array("i", [0, 1, 2])
    connection.sendmsg([len(asked).to_bytes(HEADER, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
    connection.sendall(asked)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: connection.sendall(bytes([number])))
    status = b""
    while not status:
        status = connection.recv(1)
        if status == b"":
            sys.exit(1)
    code = status[0]
    if code > 128:  # ended by a signal: so does this process
        signal.signal(code - 128, signal.SIG_DFL) if code - 128 not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), code - 128)
    os._exit(code)


def understood(arguments):
    rest = arguments[1:] if arguments[:1] == ["-u"] else arguments
    return bool(rest) and (not rest[0].startswith("-") or rest[0] in ("-m", "-c") and len(rest) > 1) and "PYTHONHOME" not in os.environ


# The warm process --------------------------------------------------------------------------------------------------------------


def serve(path):
    import importlib
    import shutil

    # PyTorch's own modules alone: what a library binds by name at import must be what the probe put there.
    for name in ("torch", "torch._dynamo", "torch.export", "torch._export.serde.serialize", "torch._subclasses.fake_tensor", "torch._inductor.config",
                 "torch.distributed.elastic", "torch.utils.data", "torch.utils.checkpoint", "numpy"):
        try:
            importlib.import_module(name)
        except ImportError:
            pass
    gc.collect()
    gc.freeze()  # a copy's collector need not look at, and thereby copy, what all copies share
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    print("ready", flush=True)
    os.set_inheritable(listener.fileno(), False)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    import select

    while True:
        ready, _, _ = select.select([listener, 0], [], [])
        if 0 in ready:  # the tests are over
            shutil.rmtree(os.path.dirname(path), ignore_errors=True)
            return
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            attend(connection)
        connection.close()


def attend(connection):
    """Fork the copy that runs the command, wait for it, pass signals on to it, and tell how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    header, descriptors = receive_descriptors(connection)
    left = int.from_bytes(header, "big")
    asked = b""
    while len(asked) < left:
        asked += connection.recv(left - len(asked))
    asked = json.loads(asked)
    begun, begin = os.pipe()
    child = os.fork()
    if child == 0:
        connection.close()
        os.close(begin)
        os.read(begun, 1)
        os.close(begun)
        become(asked, descriptors)
    os.close(begin)
    for descriptor in descriptors:
        os.close(descriptor)
    import threading

    def follow():
        while True:
            number = connection.recv(1)
            try:
                os.kill(child, number[0] if number else signal.SIGKILL)  # whoever asked is gone
            except ProcessLookupError:
                return
            if not number:
                return

    threading.Thread(target=follow, daemon=True).start()
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    try:
        connection.sendall(bytes([code if code >= 0 else 128 - code]))
    except OSError:
        pass
    os._exit(0)


def receive_descriptors(connection):
    descriptors = array.array("i")
    message, ancillary, _, _ = connection.recvmsg(HEADER, socket.CMSG_LEN(3 * descriptors.itemsize))
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    return message, list(descriptors)


def become(asked, descriptors):
    """Be the interpreter that was asked for: its streams, environment, folder and path, then its script."""
    for to, descriptor in enumerate(descriptors):
        os.dup2(descriptor, to)
    for descriptor in descriptors:
        if descriptor > 2:
            os.close(descriptor)
    os.environ.clear()
    os.environ.update(asked["env"])
    os.chdir(asked["cwd"])
    sys.stdin, sys.stdout, sys.stderr = (open(n, mode, buffering=-1 if n == 0 else 1, closefd=False, errors="backslashreplace" if n == 2 else "strict")
                                         for n, mode in ((0, "r"), (1, "w"), (2, "w")))
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    sys.executable = asked["me"]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    import random

    random.seed()
    code = 0
    try:
        start(asked["argv"][1:] if asked["argv"][:1] == ["-u"] else asked["argv"])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if code and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
    except BaseException:
        kind, value, traceback = sys.exc_info()
        while traceback is not None and traceback.tb_frame.f_code.co_filename in (__file__, "<frozen runpy>"):
            traceback = traceback.tb_next
        sys.last_type, sys.last_value, sys.last_traceback = kind, value, traceback
        value.__traceback__ = traceback
        sys.excepthook(kind, value, traceback)
        code = 1
    finish(code)


def start(argv):
    import importlib
    import runpy

    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)), *(p for p in sys.path if os.path.abspath(p) != here)]
    importlib.invalidate_caches()
    sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401
    except ImportError:
        pass
    del sys.modules["__main__"]
    import types

    sys.modules["__main__"] = types.ModuleType("__main__")
    if argv[0] == "-m":
        sys.path.insert(0, os.getcwd())
        sys.argv = [argv[1], *argv[2:]]
        runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
    elif argv[0] == "-c":
        sys.path.insert(0, "")
        sys.argv = ["-c", *argv[2:]]
        exec(compile(argv[1], "<string>", "exec"), sys.modules["__main__"].__dict__)
    else:
        sys.path.insert(0, os.path.dirname(os.path.realpath(argv[0])))
        sys.argv = argv
        main = sys.modules["__main__"]
        main.__dict__.update(__file__=argv[0], __builtins__=__builtins__, __loader__=None, __spec__=None)
        with open(argv[0], "rb") as f:
            source = f.read()
        exec(compile(source, argv[0], "exec"), main.__dict__)


def finish(code):
    import atexit
    import threading

    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            pass
    os._exit(code)


if __name__ == "__main__":
    main()
