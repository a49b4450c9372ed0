"""Stands in for packages that draw, log or are only imported, where a machine does not have them: takes everything and does nothing. Gives NumPy and PyYAML back what older releases had."""
import importlib.machinery
import sys
import types

NAMES = ("wandb", "tensorboard", "tensorboardX", "tensorboard_logger", "matplotlib", "google", "bokeh", "visdom", "comet_ml", "lmdb")


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


def old_numpy():
    """Names that NumPy had when these scripts were written."""
    try:
        import numpy
    except ImportError:
        return
    for name, value in {"float": float, "int": int, "bool": bool, "object": object, "str": str, "complex": complex, "Inf": numpy.inf, "product": numpy.prod, "bool8": numpy.bool_, "float_": numpy.float64, "in1d": getattr(numpy, "isin", None)}.items():
        if name not in vars(numpy):
            setattr(numpy, name, value)
    fromstring = numpy.fromstring
    if fromstring.__name__ != "of_bytes":

        def of_bytes(text, dtype=float, count=-1, sep=""):
            return numpy.frombuffer(text, dtype, count).copy() if sep == "" else fromstring(text, dtype, count, sep=sep)

        numpy.fromstring = of_bytes


def old_yaml():
    """yaml.load took a stream alone once."""
    try:
        import yaml
    except ImportError:
        return
    load = yaml.load
    if load.__name__ == "load_alone":
        return

    def load_alone(stream, Loader=yaml.FullLoader):
        return load(stream, Loader)

    yaml.load = load_alone


def install():
    old_yaml()
    old_numpy()
    if not any(isinstance(f, _Finder) for f in sys.meta_path):
        sys.meta_path.append(_Finder())
