"""`%load_ext plimsoll` for Jupyter, Colab and IPython: `%%plimsoll` before a cell, `%plimsoll` for who holds memory now."""
import html
import sys

from . import _advice, holders, start

HELP = "%%plimsoll [--report FOLDER] [--no-page] [--growth]"


def load(ipython):
    ipython.register_magic_function(lambda line="": _line(line), "line", "plimsoll")
    ipython.register_magic_function(lambda line, cell: _cell(ipython, line, cell), "cell", "plimsoll")


def _line(line):
    """%plimsoll: who keeps memory alive now."""
    return holders()


def _cell(ipython, line, cell):
    """Run the cell with its memory recorded. When memory runs out, the explanation and the page follow the error; with --growth, what the cell left behind."""
    options = _options(line.split())
    if options is None:
        print(f"usage: {HELP}", file=sys.stderr)
        return
    start(options["report"])
    if options["growth"]:
        from . import watch_growth

        with watch_growth():
            result = ipython.run_cell(cell)
    else:
        result = ipython.run_cell(cell)
    error = result.error_before_exec or result.error_in_exec
    if _advice.is_out_of_memory(error):
        _show(error, options["page"])


def _options(words):
    options = {"report": "plimsoll-report", "page": True, "growth": False}
    words = list(words)
    while words:
        word = words.pop(0)
        if word == "--report" and words:
            options["report"] = words.pop(0)
        elif word == "--no-page":
            options["page"] = False
        elif word == "--growth":
            options["growth"] = True
        else:
            return None
    return options


def _show(error, page):
    from IPython.display import HTML, display

    try:
        print(_advice.explanation(error))
        recording = _advice.snapshot()
        if page and recording:
            display(HTML(frame(_advice.page(recording))))
    except Exception as problem:  # the cell's own error was shown already
        print(f"plimsoll: memory ran out, and it cannot be explained here: {problem}", file=sys.stderr)


def frame(document):
    """A page inside the output of a cell, apart from the notebook's own styles and scripts."""
    return f'<iframe srcdoc="{html.escape(document, quote=True)}" sandbox="allow-scripts" style="width:100%;height:720px;border:1px solid #ccc"></iframe>'
