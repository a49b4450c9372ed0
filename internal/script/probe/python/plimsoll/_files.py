"""Writes small JSON files so that a reader never sees half of one, and says once when that is impossible."""
import json
import os
import stat
import sys

_complained = False


def write_json(path, value):
    """Replace the file at once; returns whether it was written."""
    return write_with(path, lambda f: f.write(json.dumps(value, default=str).encode()))


def write_with(path, fill):
    """Replace the file at once by what fill(f) writes; returns whether it was written."""
    part = f"{path}.{os.getpid()}.part"
    try:
        with open(part, "wb") as f:
            fill(f)
        os.replace(part, path)
        return True
    except OSError as problem:
        _complain(path, problem)
        remove(part)
        return False


def remove(path):
    try:
        os.unlink(path)
    except OSError:
        pass


def private_folder():
    """The folder where every run on this machine tells `plimsoll watch` how it does; None where it cannot be trusted."""
    if not hasattr(os, "getuid"):
        return None  # on Windows nobody reads it
    folder = os.path.join(os.environ.get("XDG_RUNTIME_DIR") or "/tmp", f"plimsoll-{os.getuid()}")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        facts = os.lstat(folder)
    except OSError:
        return None
    ours = stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid() and not facts.st_mode & 0o022
    return folder if ours else None


def _complain(path, problem):
    global _complained
    if not _complained:
        _complained = True
        print(f"plimsoll: cannot write {path} ({problem.strerror}); the script continues, but its record is incomplete", file=sys.stderr)
