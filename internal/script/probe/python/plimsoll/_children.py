"""Keeps the probe in front of the PYTHONPATH of processes that a script starts with an environment of its own making, and leaves none of them behind."""
import functools
import os
import sys

from ._imports import when_imported

FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def follow():
    """Watch over subprocess, once the script imports it."""
    when_imported("subprocess", _hook)


def _hook(subprocess):
    original = subprocess.Popen.__init__

    @functools.wraps(original)
    def __init__(popen, *args, **kwargs):
        if len(args) < 11:  # env is the eleventh argument; nobody passes it by place
            env = kwargs.get("env")
            changed = with_probe(os.environ if env is None else env)
            if changed is not None:
                kwargs["env"] = changed
        original(popen, *args, **kwargs)

    subprocess.Popen.__init__ = __init__


def leave(code):
    """End this process in the midst of its script, and the ones that multiprocessing started for it: they would wait for a parent that is gone."""
    sys.stdout.flush()
    sys.stderr.flush()
    started = sys.modules.get("multiprocessing.process")
    for child in list(getattr(started, "_children", ())):
        try:
            child.kill()
        except Exception:  # it has ended, or is another process's
            pass
    os._exit(code)


def with_probe(env):
    """The environment with the probe in it; None where it is there already, or where this is no environment we know."""
    try:
        path = env.get("PYTHONPATH")
        if path is not None and FOLDER in path.split(os.pathsep):
            return None
        ours = {name: value for name, value in os.environ.items() if name.startswith("PLIMSOLL_") and name not in env}
        return {**env, **ours, "PYTHONPATH": FOLDER + os.pathsep + path if path else FOLDER}
    except (AttributeError, TypeError):
        return None
