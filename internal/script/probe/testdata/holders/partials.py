# truth: arguments of functools.partial objects in jobs
# holder: variable jobs[*].args[0]
import torch
from torch import nn

import kit

from functools import partial

jobs = []
for step in kit.steps():
    jobs.append(partial(print, kit.batch()[0]))
