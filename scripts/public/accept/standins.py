"""Stands in for packages that draw and log, where a machine does not have them: takes everything and does nothing."""
import importlib.machinery
import sys
import types

NAMES = ("wandb", "tensorboard", "tensorboardX", "tensorboard_logger", "matplotlib", "google")


class _Kind(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything


class Anything(metaclass=_Kind):
    def __init__(self, *args, **kwargs):
        pass

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()

    def __call__(self, *args, **kwargs):
        return Anything()

    def __getitem__(self, key):
        return Anything()

    def __setitem__(self, key, value):
        pass

    def __iter__(self):
        return iter((Anything(), Anything()))

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        return False


class _Module(types.ModuleType):
    __version__ = "99.0"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything


class _Finder:
    """Comes after all others: what is installed is taken."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in NAMES:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return _Module(spec.name)

    def exec_module(self, module):
        pass


def install():
    if not any(isinstance(f, _Finder) for f in sys.meta_path):
        sys.meta_path.append(_Finder())
