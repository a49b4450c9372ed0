"""Keeps an interpreter that has imported torch, and starts scripts in forks of it: warm.py SOCKET, then the program that `warm.py SOCKET --client` prints in place of python.

Most of what predicting a small script costs is importing torch and its compiler, twice. A fork has them already. The rest is meant to be as in a fresh interpreter (answers of the two were not compared):
the environment, PYTHONPATH and its sitecustomize, the folder, standard streams and the exit status are the caller's. A worker ends with its caller.
"""
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import time
import types

CLIENT = """#!{python} -IS
import json, os, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect({path!r})
socket.send_fds(s, [json.dumps({{"args": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd()}}).encode() + b"\\n"], [0, 1, 2])
s.shutdown(socket.SHUT_WR)
answer = s.makefile().read()
sys.exit(int(answer or 137))
"""


def main():
    path = sys.argv[1]
    if "--client" in sys.argv:
        print(CLIENT.format(python=sys.executable, path=os.path.abspath(path)), end="")
        return
    for name in ("torch", "torch.utils.data", "torch.optim", "torch._dynamo", "torch.export._trace", "torch._export.serde.serialize", "torch._subclasses.fake_tensor", "numpy",
                 "torchvision", "torchvision.datasets", "torchvision.transforms"):
        try:
            importlib.import_module(name)
        except ImportError as problem:
            print("not imported:", name, problem, file=sys.stderr)
    for name, module in list(sys.modules.items()):
        if name.startswith("torchvision.datasets") and hasattr(module, "check_integrity"):
            module.check_integrity = lambda path, md5=None: os.path.isfile(path)  # made-up data has other check sums
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    if os.path.exists(path):
        os.remove(path)
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen(8)
    while True:
        caller, _ = server.accept()
        if os.fork() == 0:
            server.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os._exit(serve(caller))
        caller.close()


def serve(caller):
    """Start the worker, wait for its end or the caller's."""
    text, fds = b"", []
    while not text.endswith(b"\n"):
        part, more, _, _ = socket.recv_fds(caller, 1 << 20, 3)
        if not part:
            break
        text, fds = text + part, fds + list(more)
    asked = json.loads(text)
    worker = os.fork()
    if worker == 0:
        caller.close()
        work(asked, fds)
    for fd in fds:
        os.close(fd)
    while True:
        pid, status, used = os.wait4(worker, os.WNOHANG)
        if pid:
            break
        ready, _, hung = select.select([], [], [caller], 0.05)
        if gone(caller):
            os.killpg(worker, signal.SIGKILL)
            _, status, used = os.wait4(worker, 0)
            break
    log = asked["env"].get("WARM_SPENT")
    if log:
        with open(log, "a") as f:
            f.write(f"{used.ru_utime + used.ru_stime}\n")
    try:
        caller.sendall(str(os.waitstatus_to_exitcode(status) % 256).encode())
    except OSError:
        pass
    return 0


def gone(caller):
    """Whether the caller is dead: its end of the socket is closed both ways."""
    poll = select.poll()
    poll.register(caller, 0)
    return any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll(0))


def work(asked, fds):
    os.setsid()
    for to, fd in enumerate(fds):
        os.dup2(fd, to)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    words = list(asked["args"])
    library = [p for p in sys.path if p and os.path.abspath(p) != os.path.dirname(os.path.abspath(__file__))]
    sys.path[:] = [p for p in asked["env"].get("PYTHONPATH", "").split(os.pathsep) if p] + [p for p in library if p not in OUTER]
    sys.modules.pop("sitecustomize", None)
    code = 0
    try:
        try:
            importlib.import_module("sitecustomize")
        except ImportError:
            pass
        if words[0] == "-m":
            sys.argv = words[1:]
            sys.path.insert(0, os.getcwd())
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = words
            sys.path.insert(0, os.path.dirname(os.path.abspath(words[0])))
            script = types.ModuleType("__main__")
            script.__file__ = words[0]
            script.__builtins__ = __builtins__
            sys.modules["__main__"] = script
            with open(words[0], "rb") as f:
                source = f.read()
            exec(compile(source, words[0], "exec"), script.__dict__)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException as problem:
        problem.__traceback__ = problem.__traceback__.tb_next
        sys.last_type, sys.last_value, sys.last_traceback = type(problem), problem, problem.__traceback__
        sys.excepthook(type(problem), problem, problem.__traceback__)
        code = 1
    import atexit

    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


OUTER = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]

if __name__ == "__main__":
    main()
