# truth: parts, a variable of a coroutine
# holder: variable parts[*]
import torch
from torch import nn

import kit

import types


@types.coroutine
def pause():
    yield


async def collect():
    parts = []
    while True:
        parts.append(kit.batch()[0])
        await pause()


task = collect()
for step in kit.steps():
    task.send(None)
