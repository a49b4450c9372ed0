"""Drives the recorder through runs that live on a GPU that is not there, and tells what it kept of them: `pretended_growth.py REPORT`.

The walk looks at the processor's tensors in place of the card's.
"""
import json
import os
import signal
import sys
import types

import torch

GIB = 2**30
memory = {"now": 0, "peak": 0}


def stats(device):
    entry = {"all": {"current": memory["now"], "peak": memory["peak"]}}
    return {"allocated_bytes": entry, "reserved_bytes": entry, "allocation": {"all": {"allocated": 0}}}


def hold(size):
    memory["now"] = size
    memory["peak"] = max(memory["peak"], size)


observers = []
torch.cuda._lazy_call = lambda call: call()
torch.cuda.is_initialized = lambda: True
torch.cuda.device_count = lambda: 1
torch.cuda.get_device_properties = lambda i: types.SimpleNamespace(name="pretended", total_memory=24 * GIB, major=9, minor=0)
torch.cuda.memory._record_memory_history = lambda *args, **kwargs: None
torch.cuda.memory._snapshot = lambda: {"segments": [], "device_traces": [[]]}
torch._C._cuda_getDevice = lambda: 0
torch._C._cuda_memoryStats = stats
torch._C._cuda_setMemoryMetadata = lambda label: None
torch._C._cuda_attach_out_of_memory_observer = observers.append
torch.cuda.is_current_stream_capturing = lambda: False
torch.cuda.mem_get_info = lambda device=None: (20 * GIB, 24 * GIB)
os.environ["PLIMSOLL_KEEP"] = "peak"

import plimsoll
from plimsoll import _holders, _recorder

look = _holders.look
_holders.look = lambda torch, kind, blocks, **more: look(torch, "cpu", None, seconds=60, **more)
plimsoll.start(sys.argv[1])
recorder = _recorder.current()


def kept():
    return sorted(name.split(".", 1)[1] for name in os.listdir(sys.argv[1]) if not name.endswith((".json", ".part")))


def step(after):
    hold(2 * GIB)
    loss = model(torch.ones(3, 4)).mean()
    hold(3 * GIB)
    loss.backward()
    hold(after)
    optimizer.step()


said = {}
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.Adam(model.parameters())
feats = []
for n in range(40):
    step(GIB)
said["steady"] = kept()
os.kill(os.getpid(), signal.SIGUSR2)
said["asked"] = kept()
status = json.load(open(os.path.join(recorder.status_folder, f"run-{os.getpid()}.json")))
said["status"] = [status["asks"] == int(signal.SIGUSR2), status["held"]["holders"][0]["name"]]
for n in range(40):
    feats.append(torch.zeros(1000))
    step(GIB + n * 8 * 2**20)
said["grown"] = kept()
observers[0](0, 2 * GIB, 12 * GIB, GIB)
said["failed"] = kept()
said["problems"] = recorder.problems
print(json.dumps(said))
