"""Finds the plimsoll binary that came with this package, or the one on the PATH."""
import os
import shutil
import sys
import sysconfig

NAME = "plimsoll.exe" if os.name == "nt" else "plimsoll"


def find():
    """The path of the binary; FileNotFoundError says where it was looked for."""
    candidates = [os.path.join(folder, NAME) for folder in _folders()]
    for path in candidates:
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    path = shutil.which(NAME)
    if path:
        return path
    raise FileNotFoundError("the plimsoll binary was not found in " + ", ".join(dict.fromkeys(candidates)) + " or on the PATH; install it with: pip install plimsoll-gpu")


def _folders():
    """Where pip puts scripts: of this environment, of this user, and of `pip install --target`."""
    yield sysconfig.get_path("scripts")
    user = "nt_user" if os.name == "nt" else "osx_framework_user" if sys.platform == "darwin" and sys._framework else "posix_user"
    if user in sysconfig.get_scheme_names():
        yield sysconfig.get_path("scripts", user)
    target = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    yield os.path.join(target, "bin")
    yield os.path.join(target, "Scripts")
