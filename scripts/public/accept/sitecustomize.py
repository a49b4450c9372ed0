"""Lets torchvision take made-up data for the real: its files have other check sums. And lets a script do without packages that only draw and log."""
import os
import sys


class _Finder:
    def find_spec(self, name, path=None, target=None):
        if name != "torchvision.datasets.utils":
            return None
        sys.meta_path.remove(self)
        import importlib.util

        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            module.check_integrity = lambda path, md5=None: os.path.isfile(path)

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, _Finder())

try:
    import standins

    standins.install()
except ImportError:
    pass  # this file was found without its folder
