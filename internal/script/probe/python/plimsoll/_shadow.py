"""Keeps a traced script from changing files.

A trace follows a script past its first training step, into code that saves checkpoints, renames and deletes old ones and writes logs. From the first backward pass
on the script sees its files through an overlay: what it writes lands in a folder of the trace's own and is found there by every later question, what it deletes is
only said to be gone. Checkpoints are kept in memory, as shapes; the file has their number. Before that everything happens as it would.
"""
import builtins
import functools
import io
import os
import shutil

MARK = b"plimsoll checkpoint %012d\n"
LENGTH = len(MARK % 0)
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Shadow:
    def __init__(self, torch, folder, trace):
        self.torch, self.folder, self.trace = torch, folder, trace
        self.own = (folder, os.path.dirname(folder) + os.sep, "/dev/", "/proc/")
        self.kept = []  # what torch.save was given, as shapes
        self.gone = set()  # paths whose real version the script deleted or renamed
        self.on = False
        self.true, self.load = {}, torch.load

    def install(self):
        self.on = True
        for name in ("stat", "lstat", "mkdir", "makedirs", "open", "remove", "unlink", "rmdir", "rename", "replace", "link", "symlink", "listdir", "scandir", "utime", "chmod",
                     "truncate", "access"):
            self.true[name] = getattr(os, name)
        self.read = builtins.open
        for module in (builtins, io):
            module.open = self._open(module.open)
        for name in ("stat", "lstat", "access"):
            self._put(os, name, self._asked(self.true[name]))
        for name in ("utime", "chmod", "truncate"):
            self._put(os, name, self._changed(self.true[name]))
        for name in ("remove", "unlink", "rmdir"):
            self._put(os, name, self._removed(self.true[name]))
        for name in ("rename", "replace", "link"):
            self._put(os, name, self._moved(self.true[name], keep=name == "link"))
        self._put(os, "symlink", self._symlink)
        self._put(os, "mkdir", self._mkdir)
        self._put(os, "open", self._descriptor)
        self._put(os, "listdir", self._listdir)
        self._put(os, "scandir", self._scandir)
        self._put(shutil, "rmtree", self._removed(shutil.rmtree))

    def _put(self, module, name, function):
        true = getattr(module, name)
        setattr(module, name, function)
        for group in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
            if true in group:
                group.add(getattr(module, name))  # libraries ask before they use an option

    # Where a path's own version lies -------------------------------------------------------------------------------------------

    def passes(self, path, *args, **kwargs):
        """What is none of the overlay's business: descriptors, paths relative to one, and the trace's own files."""
        if isinstance(path, int) or any(kwargs.get(k) is not None for k in ("dir_fd", "src_dir_fd", "dst_dir_fd")):
            return True
        try:
            return self.full(path).startswith(self.own)
        except (TypeError, ValueError):
            return True

    def full(self, path):
        return os.path.abspath(os.fsdecode(path))

    def here(self, path):
        return os.path.join(self.folder, self.full(path).lstrip(os.sep))

    def exists(self, path):
        try:
            self.true["lstat"](path)
            return True
        except (OSError, ValueError):
            return False

    def lost(self, path):
        """Whether the script has deleted the path, or a folder above it."""
        path = self.full(path)
        while path != os.sep:
            if path in self.gone:
                return True
            path = os.path.dirname(path)
        return False

    def seen(self, path):
        """Where a path is to be read: the script's own version if there is one."""
        here = self.here(path)
        return here if self.exists(here) or self.gone and self.lost(path) else path

    def room(self, path):
        """A place for a version of the path."""
        here = self.here(path)
        self.true["makedirs"](os.path.dirname(here), exist_ok=True)
        return here

    def copied(self, path):
        """The script's own version, made from the real one if need be."""
        from_, here = self.seen(path), self.room(path)
        if from_ != here and os.path.isfile(from_):
            with self.read(from_, "rb") as old, self.read(here, "wb") as new:
                new.write(old.read())
        return here

    # What takes the place of Python's functions ----------------------------------------------------------------------------------

    def _open(self, original):
        @functools.wraps(original)
        def open(file, mode="r", *args, **kwargs):
            if not isinstance(mode, str) or self.passes(file):
                return original(file, mode, *args, **kwargs)
            if "w" in mode or "x" in mode:
                return original(self.room(file), mode.replace("x", "w"), *args, **kwargs)
            if "a" in mode or "+" in mode:
                return original(self.copied(file), mode, *args, **kwargs)
            return original(self.seen(file), mode, *args, **kwargs)

        return open

    def _descriptor(self, path, flags, *args, **kwargs):
        if self.passes(path, **kwargs) or flags & os.O_DIRECTORY:
            return self.true["open"](path, flags, *args, **kwargs)
        if not flags & WRITING:
            return self.true["open"](self.seen(path), flags, *args, **kwargs)
        return self.true["open"](self.room(path) if flags & os.O_TRUNC else self.copied(path), flags & ~os.O_EXCL, *args, **kwargs)

    def _asked(self, original):
        return lambda path, *args, **kwargs: original(path if self.passes(path, **kwargs) else self.seen(path), *args, **kwargs)

    def _changed(self, original):
        return lambda path, *args, **kwargs: original(path if self.passes(path, **kwargs) else self.copied(path), *args, **kwargs)

    def _mkdir(self, path, *args, **kwargs):
        if self.passes(path, **kwargs):
            return self.true["mkdir"](path, *args, **kwargs)
        if self.exists(self.seen(path)):
            raise FileExistsError(17, "File exists", path)
        self.room(path)
        return self.true["mkdir"](self.here(path))

    def _removed(self, original):
        def remove(path, *args, **kwargs):
            if self.passes(path, **kwargs):
                return original(path, *args, **kwargs)
            here = self.here(path)
            if self.exists(here):
                original(here, *args, **kwargs)
            self.gone.add(self.full(path))

        return remove

    def _moved(self, original, keep):
        def move(source, target, *args, **kwargs):
            if self.passes(source, **kwargs) and self.passes(target):
                return original(source, target, *args, **kwargs)
            from_ = source if self.passes(source) else self.seen(source)
            if os.path.isdir(from_) and from_ == source:  # a real folder: no copy is made of what may be large
                self.true["makedirs"](self.here(target), exist_ok=True)
            elif keep or from_ == source:
                with self.read(from_, "rb") as old, self.read(self.room(target), "wb") as new:
                    new.write(old.read())
            else:
                self.true["replace"](from_, self.room(target))
            if not keep:
                self.gone.add(self.full(source))

        return move

    def _symlink(self, source, target, *args, **kwargs):
        if self.passes(target, **kwargs):
            return self.true["symlink"](source, target, *args, **kwargs)
        meant = os.path.join(os.path.dirname(self.full(target)), os.fsdecode(source))
        self.true["symlink"](self.full(self.seen(meant)), self.room(target))

    def _listdir(self, path=".", *args, **kwargs):
        if self.passes(path):
            return self.true["listdir"](path)
        return [e.name for e in self._entries(path)]

    def _scandir(self, path=".", *args, **kwargs):
        return self.true["scandir"](path) if self.passes(path) else Entries(self._entries(path))

    def _entries(self, path):
        real, here, found = self.exists(path) and not self.lost(path), self.here(path), {}
        if not real and not self.exists(here):
            raise FileNotFoundError(2, "No such file or directory", path)
        for e in self.true["scandir"](path) if real else ():
            if self.full(e.path) not in self.gone:
                found[e.name] = e
        for e in self.true["scandir"](here) if self.exists(here) else ():
            found[e.name] = Entry(e, os.path.join(os.fsdecode(path), e.name))
        return list(found.values())

    # Checkpoints ---------------------------------------------------------------------------------------------------------------

    def keep(self, value):
        self.kept.append(self.trace.shapes_of(value))
        return MARK % (len(self.kept) - 1)

    def known(self, file):
        """The checkpoint that a file, or an open one, names; None where it is a real one."""
        if not self.on:
            return None
        if isinstance(file, (str, os.PathLike)):
            try:
                with builtins.open(file, "rb") as f:
                    head = f.read(LENGTH)
            except OSError:
                return None
        elif hasattr(file, "read") and hasattr(file, "seek"):
            at = file.tell()
            head = file.read(LENGTH)
            file.seek(at)
        else:
            return None
        if isinstance(head, bytes) and head.startswith(MARK[:19]) and len(head) == LENGTH and int(head[19:]) < len(self.kept):
            return (self.kept[int(head[19:])],)
        return None

    def write(self, value, file):
        if hasattr(file, "write"):
            file.write(self.keep(value))
            return
        with builtins.open(file, "wb") as f:
            f.write(self.keep(value))

    def attach(self):
        """Take the place of what saves and loads tensors; until install() files are written as they would be."""
        torch, save = self.torch, self.torch.save

        def save_(obj, f, *args, **kwargs):
            if not self.on and self.unreal(obj):  # a model that is saved before its first step
                self.install()
            return self.write(obj, f) if self.on else save(obj, f, *args, **kwargs)

        def load_(f, map_location=None, *args, **kwargs):
            known = self.known(f)
            return self.real(f, map_location, args, kwargs) if known is None else self.trace.made_from(known[0], map_location)

        torch.save, torch.load = functools.wraps(save)(save_), functools.wraps(self.load)(load_)
        from ._imports import when_imported

        when_imported("safetensors.torch", self._safetensors)
        self.since = float(os.environ.get("PLIMSOLL_SINCE") or "inf")
        os.mkdir = _made_before(os.mkdir, self.since)

    def real(self, f, map_location, args, kwargs):
        """A checkpoint that a file really has: read on the host; what goes to the GPU, by the caller's word or the file's, has a shape there and no data."""
        places = set()

        def stay(storage, location):
            places.add(location)
            return storage

        if "weights_only" not in kwargs and self.cached(f):
            kwargs = {**kwargs, "weights_only": False}
        made = self.load(f, stay, *args, **kwargs)
        device = self.trace.places.named(map_location)
        if device is not None and device.type == "cuda" or map_location is None and any(p.startswith("cuda") for p in places):
            return self.trace.on_gpu(made)
        return made

    def unreal(self, value):
        """Whether a checkpoint has tensors without data, which no file can have."""
        if isinstance(value, self.torch.nn.Module):
            return any(map(self.unreal, (*value.parameters(), *value.buffers())))
        if isinstance(value, dict):
            return any(map(self.unreal, value.values()))
        return isinstance(value, self.trace.FakeTensor) or isinstance(value, (list, tuple)) and any(map(self.unreal, value))

    def cached(self, f):
        """Whether the script wrote a file itself when it ran up to its first step, as scripts do that keep prepared data: without that run it would not read it now, and may not be able to, since PyTorch 2.6
        refuses to unpickle what is not a tensor."""
        try:
            return (os.fstat(f.fileno()) if hasattr(f, "fileno") else os.stat(f)).st_mtime >= self.since
        except (OSError, TypeError, ValueError):
            return False

    def _safetensors(self, module):
        save, load = module.save_file, module.load_file

        def save_file(tensors, filename, *args, **kwargs):
            return self.write(tensors, filename) if self.on else save(tensors, filename, *args, **kwargs)

        def load_file(filename, device="cpu", *args, **kwargs):
            known = self.known(filename)
            return load(filename, device, *args, **kwargs) if known is None else self.trace.made_from(known[0], device)

        module.save_file, module.load_file = save_file, load_file


class Entry:
    """An entry of a folder under the name the script knows."""

    def __init__(self, true, path):
        self.true, self.name, self.path = true, true.name, path

    def __getattr__(self, name):
        return getattr(self.true, name)

    def __fspath__(self):
        return self.path


class Entries:
    def __init__(self, entries):
        self.left = iter(entries)

    def __iter__(self):
        return self.left

    def __next__(self):
        return next(self.left)

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        return False

    def close(self):
        pass


def _made_before(mkdir, since):
    """The script ran already, up to its first step: a folder that it made then is no reason to fail now."""

    @functools.wraps(mkdir)
    def mkdir_(path, *args, **kwargs):
        try:
            return mkdir(path, *args, **kwargs)
        except FileExistsError:
            if not os.path.isdir(path) or os.stat(path).st_ctime < since:
                raise

    return mkdir_
