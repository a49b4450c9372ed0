"""Starts plimsoll's probe in every Python process of a run, then hands over to the sitecustomize it stands in front of.

Python imports a module of this name at start-up when its folder is on PYTHONPATH. Nothing here may fail loudly: a script
must start as it would without it.
"""
import sys


def _run_the_hidden_one():
    """Import the sitecustomize that this file hides, if the machine has one."""
    import importlib.machinery
    import importlib.util
    import os

    here = os.path.dirname(os.path.abspath(__file__))
    elsewhere = [p for p in sys.path if os.path.abspath(p or os.curdir) != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


try:
    import plimsoll._start

    plimsoll._start.from_environment()
except Exception as problem:
    print(f"plimsoll: the probe did not start ({problem}); the script runs unobserved", file=sys.stderr)

_run_the_hidden_one()
