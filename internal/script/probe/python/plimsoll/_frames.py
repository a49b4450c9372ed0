"""Stacks as the script's author sees them: without the probe's own frames and without PyTorch's."""
import functools
import os
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY = os.path.dirname(os.path.abspath(os.__file__)) + os.sep  # Python's own
DEPTH = 24  # frames reported


def is_scripts(name):
    """Whether a file is the script's: no library's, not Python's own, not the probe's."""
    return "site-packages" not in name and not name.startswith((HERE, LIBRARY, "<frozen"))


def around(function, before, after):
    """The function with a call before and one after it, even when it raises."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        before()
        try:
            return function(*args, **kwargs)
        finally:
            after()

    return wrapper


def script_stack():
    """Where the script is: innermost frame first, library frames left out. Backward runs on threads without Python frames; then the main thread's."""
    frame = sys._getframe()
    if threading.current_thread() is not threading.main_thread():
        frame = sys._current_frames().get(threading.main_thread().ident, frame)
    found = []
    while frame is not None and len(found) < DEPTH:
        name = frame.f_code.co_filename
        if is_scripts(name):
            found.append({"file": name, "line": frame.f_lineno, "function": frame.f_code.co_name})
        frame = frame.f_back
    return found


def script_line():
    """The file and line where the script is."""
    frame = next(iter(script_stack()), None)
    return (frame["file"], frame["line"]) if frame else ("", 0)


def script_line_of(error):
    """The innermost line of the script's own in a traceback."""
    place, traceback = ("", 0), error.__traceback__
    while traceback is not None:
        name = traceback.tb_frame.f_code.co_filename
        if is_scripts(name):
            place = (name, traceback.tb_lineno)
        traceback = traceback.tb_next
    return place


def spelled(place):
    return f"{os.path.basename(place[0])}:{place[1]}"


def hide_from_tracebacks():
    """Uncaught exceptions print as they would without the probe."""
    previous = sys.excepthook

    def excepthook(kind, value, traceback):
        try:
            strip(value)
        except Exception:
            pass
        previous(kind, value, value.__traceback__)

    sys.excepthook = excepthook


def strip(error):
    """Take the probe's frames out of an exception's traceback and of those it came from."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        error.__traceback__ = _without_probe(error.__traceback__)
        error = error.__cause__ or error.__context__


def _without_probe(traceback):
    while traceback is not None and _is_probe(traceback):
        traceback = traceback.tb_next
    here = traceback
    while here is not None and here.tb_next is not None:
        if _is_probe(here.tb_next):
            here.tb_next = here.tb_next.tb_next
        else:
            here = here.tb_next
    return traceback


def _is_probe(traceback):
    return traceback.tb_frame.f_code.co_filename.startswith(HERE)
