"""Keeps its last two checkpoints, as trainers do: written beside, renamed, found again by name, the oldest deleted, the best loaded. Fails where a file it wrote is not there."""
import glob
import io
import json
import os
import pathlib
import shutil
import sys
import tempfile

import torch

out = pathlib.Path(sys.argv[1])
model = torch.nn.Linear(1024, 1024, bias=False).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    model(torch.randn(8, 1024, device="cuda")).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    folder = out / f"step-{step}"
    folder.mkdir(parents=True, exist_ok=True)
    torch.save({"model": model.state_dict(), "step": step}, folder / "part")
    os.replace(folder / "part", folder / "model.pt")
    assert not (folder / "part").exists() and (folder / "model.pt").is_file()
    with open(out / "log.jsonl", "a") as f:
        f.write(json.dumps({"step": step}) + "\n")
    found = sorted(glob.glob(str(out / "step-*")))
    assert [pathlib.Path(p).name for p in found][-1] == f"step-{step}", found
    for old in found[:-2]:
        shutil.rmtree(old)
        assert not os.path.exists(old)
assert sorted(p.name for p in out.iterdir()) == ["log.jsonl", "old.txt", "step-2", "step-3"]
assert len((out / "log.jsonl").read_text().splitlines()) == 4
(out / "old.txt").unlink()
assert not (out / "old.txt").exists()

descriptor, name = tempfile.mkstemp(dir=out)
os.close(descriptor)
with open(name, "wb") as f:
    f.write(b"x")
shutil.move(name, out / "moved")
assert (out / "moved").stat().st_size == 1 and not os.path.exists(name)

buffer = io.BytesIO()
torch.save(model.state_dict(), buffer)
buffer.seek(0)
model.load_state_dict(torch.load(buffer, map_location="cuda"))
best = torch.load(out / "step-3" / "model.pt", map_location="cuda", weights_only=True)
assert best["step"] == 3 and best["model"]["weight"].shape == (1024, 1024)
held = [torch.load(out / "step-3" / "model.pt") for _ in range(8)]  # eight copies beside the model
