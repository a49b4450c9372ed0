"""Runs a call right after a module was imported, whoever imports it."""
import sys


def when_imported(name, call):
    """Run call(module) once, right after the module was imported; at once when it already is."""
    module = sys.modules.get(name)
    if module is None:
        sys.meta_path.insert(0, _Finder(name, call))
    elif getattr(getattr(module, "__spec__", None), "_initializing", False):
        _when_done(module, call)  # it is being imported, and imports who asks
    else:
        _quietly(call, module)


def _when_done(module, call):
    """importlib says on a module's spec that it is done, whether it succeeded or not (importlib/_bootstrap.py, _load_unlocked)."""
    spec = module.__spec__

    class Waiting(type(spec)):
        def __setattr__(self, name, value):
            super().__setattr__(name, value)
            done = sys.modules.get(self.name)  # a module may put another in its place
            if name == "_initializing" and not value and done is not None:
                _quietly(call, done)

    spec.__class__ = Waiting


class _Finder:
    """Finds one module as the others would and adds a call to the end of its import."""

    def __init__(self, name, call):
        self.name, self.call, self.busy = name, call, False

    def find_spec(self, fullname, path=None, target=None):
        if fullname != self.name or self.busy:
            return None
        self.busy = True
        try:
            spec = self._ask_the_others(fullname, path, target)
        finally:
            self.busy = False
        if spec is not None and hasattr(spec.loader, "exec_module"):
            self._extend(spec.loader)
        return spec

    def _ask_the_others(self, fullname, path, target):
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                return spec
        return None

    def _extend(self, loader):
        execute = loader.exec_module

        def exec_module(module):
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                _quietly(self.call, module)

        loader.exec_module = exec_module


def _quietly(call, module):
    try:
        call(module)
    except Exception as problem:
        print(f"plimsoll: the probe could not attach to {module.__name__} ({problem!r}); the script runs on unobserved", file=sys.stderr)
