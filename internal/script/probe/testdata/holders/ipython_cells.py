# truth: results of the cells of a real IPython session in its output history
# holder: variable Out[*]
import torch
from torch import nn

import kit

import os
import tempfile

os.environ.setdefault("IPYTHONDIR", tempfile.mkdtemp())
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance(user_module=None)
shell.displayhook.write_format_data = lambda *a, **k: None  # the values are kept, not shown
for step in kit.steps():
    shell.run_cell("import kit\nkit.batch()[0]", store_history=True)
