"""Keeps a traced script from changing files.

A trace follows a script past its first training step, into code that saves checkpoints, deletes old ones and writes logs. From the first backward pass on, what the
script writes lands in a folder of the trace's own and is read back from there, what it deletes stays, and checkpoints are kept in
memory, as shapes. Before that everything happens as it would.
"""
import builtins
import functools
import io
import os
import shutil


class Shadow:
    def __init__(self, torch, folder, trace):
        self.torch, self.folder, self.trace = torch, folder, trace
        self.saved = {}  # what was "written" by torch.save, by path
        self.on = False

    def install(self):
        self.on = True
        for module in (builtins, io):
            module.open = self._open(module.open)
        for module, names in ((os, ("remove", "unlink", "rmdir", "removedirs")), (shutil, ("rmtree",))):
            for name in names:
                setattr(module, name, self._only_here(getattr(module, name)))
        for module, names in ((os, ("rename", "replace", "renames", "link", "symlink")), (shutil, ("move", "copy", "copyfile", "copy2", "copytree"))):
            for name in names:
                setattr(module, name, self._between(getattr(module, name)))
        for name in ("mkdir", "makedirs"):
            setattr(os, name, self._folders(getattr(os, name)))
        self._checkpoints()

    def here(self, path):
        """Where a path's own version lies."""
        return os.path.join(self.folder, os.path.abspath(os.fspath(path)).lstrip(os.sep))

    def inside(self, path):
        return os.path.abspath(os.fspath(path)).startswith((self.folder, os.path.dirname(self.folder), "/dev/", "/proc/"))

    def _open(self, original):
        @functools.wraps(original)
        def open(file, mode="r", *args, **kwargs):
            if isinstance(file, int) or not isinstance(mode, str) or self.inside(file):
                return original(file, mode, *args, **kwargs)
            here = self.here(file)
            if any(letter in mode for letter in "wax+"):
                makedirs(os.path.dirname(here), exist_ok=True)
                if ("a" in mode or "+" in mode) and not os.path.exists(here) and os.path.exists(file):
                    with original(file, "rb") as old, original(here, "wb") as new:
                        new.write(old.read())
                return original(here, mode, *args, **kwargs)
            return original(here if os.path.exists(here) else file, mode, *args, **kwargs)

        makedirs = os.makedirs
        return open

    def _only_here(self, original):
        @functools.wraps(original)
        def remove(path, *args, **kwargs):
            if isinstance(path, int) or self.inside(path):
                return original(path, *args, **kwargs)
            here = self.here(path)
            return original(here, *args, **kwargs) if os.path.exists(here) else None

        return remove

    def _between(self, original):
        @functools.wraps(original)
        def move(source, target, *args, **kwargs):
            if self.inside(source) and self.inside(target):
                return original(source, target, *args, **kwargs)
            return target

        return move

    def _folders(self, original):
        @functools.wraps(original)
        def make(path, *args, **kwargs):
            if self.inside(path):
                return original(path, *args, **kwargs)
            return None

        return make

    def _checkpoints(self):
        torch, load = self.torch, self.torch.load

        def save_(obj, f, *args, **kwargs):
            if isinstance(f, (str, os.PathLike)):
                self.saved[os.path.abspath(os.fspath(f))] = self.trace.shapes_of(obj)

        def load_(f, map_location=None, *args, **kwargs):
            if isinstance(f, (str, os.PathLike)) and os.path.abspath(os.fspath(f)) in self.saved:
                return self.trace.made_from(self.saved[os.path.abspath(os.fspath(f))], map_location)
            return load(f, map_location, *args, **kwargs)

        torch.save, torch.load = save_, load_
        from ._imports import when_imported

        when_imported("safetensors.torch", lambda module: setattr(module, "save_file", lambda tensors, filename, *args, **kwargs: save_(tensors, filename)))
