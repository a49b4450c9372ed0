"""A notebook's cells in a real IPython."""
import sys

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

report, snapshot = sys.argv[1] + "/report", sys.argv[2]
shell = InteractiveShell.instance()
shell.run_cell("%load_ext plimsoll")
shell.run_cell("import kit, torch; model = kit.Hungry(steps=2); kept = []")


def cell(text):
    with capture_output() as out:
        shell.run_cell(text)
    return out


out = cell(f"%%plimsoll --report {report}\nmodel(torch.ones(4))\nprint('fine')")
print("a cell that lives:", out.stdout.strip())
out = cell(f"%%plimsoll --report {report}\nmodel(torch.ones(4))")
print("a cell that dies:", "OutOfMemoryError" in out.stdout, "2.00 GiB" in out.stdout.split("OutOfMemoryError")[-1], len(out.outputs))

import plimsoll._advice

plimsoll._advice.snapshot = lambda: snapshot  # as on a card: the failure has left a recording
shell.run_cell("model.calls = 1")
out = cell(f"%%plimsoll --report {report}\nmodel(torch.ones(4))")
page = out.outputs[0].data["text/html"]
print("with a recording:", "activations" in out.stdout, page.startswith("<iframe srcdoc=") and "&lt;/html&gt;" in page and "</html>" not in page)
out = cell("%%plimsoll --growth\nfor _ in range(3): kept.append(torch.zeros(250_000))")
print("a cell that leaks:", "kept" in out.stdout, "(+3 tensors)" in out.stdout)
out = cell("%plimsoll")
print("who holds it:", "kept" in str(out.outputs[0].data) + out.stdout if out.outputs else "kept" in out.stdout)
print("a wrong option:", "usage: %%plimsoll" in cell("%%plimsoll --nothing\n1").stderr)
