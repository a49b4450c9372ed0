# truth: the field hidden of every record in records
# holder: variable records[*].hidden
import torch
from torch import nn

import kit

from dataclasses import dataclass


@dataclass
class Record:
    step: int
    hidden: torch.Tensor


def main():
    model, records = kit.net(), []
    for step in kit.steps():
        with torch.no_grad():
            hidden = model[0](kit.batch()[0])
        records.append(Record(step, hidden))
        del hidden


main()
