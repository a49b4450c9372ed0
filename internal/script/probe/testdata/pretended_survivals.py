"""A script that catches one failure after the other, and dies of the last, on a GPU that is not there: `pretended_survivals.py REPORT`. Prints how many failures were described in full until then; the last is on the way out."""
import pathlib
import sys
import time

source = pathlib.Path(__file__).with_name("pretended_cuda.py").read_text()
exec(source[: source.index("import plimsoll")])
snapshots = []


def snapshot():
    snapshots.append(time.monotonic())
    time.sleep(0.05)
    return {"segments": [], "device_traces": [[]]}


torch.cuda.memory._snapshot = snapshot
import plimsoll

plimsoll.start(sys.argv[1])
sys.excepthook = (lambda after: lambda *failure: (after(*failure), print(len(snapshots))))(sys.excepthook)
for attempt in range(12):
    observers[0](0, 2 * GIB, 12 * GIB, GIB)
print(len(snapshots), flush=True)
raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
