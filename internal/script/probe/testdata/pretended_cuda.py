"""Drives the recorder through the life of a process on a GPU that is not there: `pretended_cuda.py REPORT [costly]`. With the last word recording shows in its steps."""
import json
import os
import sys
import types

import torch

GIB = 2**30
memory = {"now": 0, "peak": 0, "requests": 0}
calls, rings, observers = [], [], []


def stats(device):
    entry = {"all": {"current": memory["now"], "peak": memory["peak"]}}
    memory["requests"] += 10**6
    return {"allocated_bytes": entry, "reserved_bytes": entry, "allocation": {"all": {"allocated": memory["requests"]}}}


def hold(size):
    memory["now"] = size
    memory["peak"] = max(memory["peak"], size)


torch.cuda._lazy_call = lambda call: call()
torch.cuda.is_initialized = lambda: True
torch.cuda.device_count = lambda: 1
torch.cuda.get_device_properties = lambda i: types.SimpleNamespace(name="pretended", total_memory=24 * GIB, major=9, minor=0)
torch.cuda.set_per_process_memory_fraction = lambda fraction, device=None: None
torch.cuda.memory._record_memory_history = lambda enabled, **kwargs: (calls.append(kwargs["context"] if enabled else "off"), rings.append(kwargs.get("max_entries")))
torch.cuda.memory._snapshot = lambda: {"segments": [], "device_traces": [[]]}
torch.cuda.is_current_stream_capturing = lambda: False
torch.cuda.mem_get_info = lambda device=None: (24 * GIB - memory["now"] - 5 * GIB, 24 * GIB)  # others hold 5 GiB
torch._C._cuda_getDevice = lambda: 0
torch._C._cuda_memoryStats = stats
torch._C._cuda_setMemoryMetadata = lambda label: None
torch._C._cuda_attach_out_of_memory_observer = observers.append

import plimsoll
from plimsoll import _budget

costly = "costly" in sys.argv
if costly:
    _budget.cost = lambda with_stacks, without: 0.5
    _budget.KEPT = 1e-6  # each step asks for millions of blocks here
plimsoll.start(sys.argv[1])
torch.cuda.set_per_process_memory_fraction(0.5)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.Adam(model.parameters())
for step in range(150 if costly else 78):
    hold(GIB)
    loss = model(torch.ones(3, 4)).mean()
    hold(3 * GIB if step == 2 else 2 * GIB)
    loss.backward()
    hold(GIB)
    optimizer.step()
if costly:
    hold(4 * GIB)
    loss = model(torch.ones(3, 4)).mean()
    hold(GIB)
    loss.backward()
    optimizer.step()
    notes = plimsoll.stop()
    print(json.dumps({"peak": notes["peak"], "calls": calls, "rings": rings, "kept": notes["recording"]["max_entries"]}))
    sys.exit()
trained = calls[-1]
model.eval()  # in a step without stacks
hold(11 * GIB)
observers[0](0, 2 * GIB, 12 * GIB, GIB)
notes = plimsoll.stop()
print(json.dumps({
    "peak": notes["peak"], "steps": notes["step"], "cap": notes["cap_fraction"], "outside": notes["outside"], "card": notes["cards"][0]["name"], "problems": notes["problems"],
    "oom": {k: notes["ooms"][0][k] for k in ("requested", "limit", "allocated", "step", "phase")}, "where": notes["ooms"][0]["stack"][0]["function"],
    "snapshot": os.path.exists(os.path.join(sys.argv[1], notes["snapshot"])), "first contexts": calls[:3], "evaluation": [trained, calls[-1]], "optimizer": notes["optimizers"]["Adam"]["class"],
}))
