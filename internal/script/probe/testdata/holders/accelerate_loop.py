# truth: outputs gathered in all_logits of an accelerate loop
# holder: variable all_logits[*]
import torch
from torch import nn

import kit

from accelerate import Accelerator

accelerator = Accelerator(cpu=not kit.CUDA)
model = accelerator.prepare(kit.net())
all_logits = []
with torch.no_grad():
    for step in kit.steps():
        all_logits.append(accelerator.gather(model[0](kit.batch()[0])))
