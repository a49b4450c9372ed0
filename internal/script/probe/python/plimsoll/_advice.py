"""Asks the plimsoll binary why memory ran out, for callbacks, the context manager and notebooks. Nothing here ever hides the script's own error."""
import os
import subprocess
import sys
import tempfile
import traceback

from ._binary import find

SECONDS = 120  # most time an explanation or a page may take


def is_out_of_memory(error):
    from . import _recorder

    return error is not None and _recorder.is_out_of_memory(type(error).__name__, str(error))


def snapshot():
    """The recording that this process wrote when its request failed, or None."""
    from . import _recorder

    recorder = _recorder.current()
    if recorder is not None:
        recorder._try(recorder.settle)
    name = recorder.extra.get("snapshot") if recorder is not None else None
    return os.path.join(recorder.report, name) if name else None


def explanation(error):
    """What `plimsoll explain` says about the error, as text."""
    recording = snapshot()
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "error.txt")
        with open(log, "w", encoding="utf-8", errors="replace") as f:
            f.write(text)
        return _run("explain", *([recording] if recording else []), log)


def page(recording):
    """The page of `plimsoll view` as one HTML document."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "page.html")
        _run("view", "--html", out, recording)
        with open(out, encoding="utf-8") as f:
            return f.read()


def tell(error):
    """Print the explanation on stderr; under `plimsoll run` that is done when the script has ended."""
    if os.environ.get("PLIMSOLL_RUN"):
        return
    try:
        print(explanation(error), file=sys.stderr)
    except (OSError, subprocess.SubprocessError) as problem:
        print(f"plimsoll: memory ran out, and it cannot be explained here: {problem}", file=sys.stderr)


def tell_at_the_end():
    """Explain an out-of-memory error that ends this process, after Python has printed it."""
    previous = sys.excepthook
    if getattr(previous, "_plimsoll", False):
        return

    def excepthook(kind, value, trace):
        previous(kind, value, trace)
        if is_out_of_memory(value):
            tell(value)

    excepthook._plimsoll = True
    sys.excepthook = excepthook


def _run(*args):
    done = subprocess.run([find(), *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, encoding="utf-8", errors="replace", timeout=SECONDS,
                          env={**os.environ, "NO_COLOR": "1"})
    if done.returncode not in (0, 3):  # 3: a finding
        raise subprocess.SubprocessError((done.stderr or f"plimsoll {args[0]} ended with {done.returncode}").strip())
    return done.stdout.strip()
