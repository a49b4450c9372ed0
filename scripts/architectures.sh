#!/usr/bin/env bash
# Reads the measured architectures that are not built in from the code of transformers again, into the testdata that the accuracy test compares with
# measurements. Takes about ten minutes on two cores. Arguments: ids of rows, or nothing for those that are missing.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(scripts/python-env.sh)
data=internal/answer/predict/testdata
PYTHONPATH=internal/script/probe/python CUDA_VISIBLE_DEVICES= HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 "$python" - "$data" "$@" <<'PYTHON'
import gzip, json, os, sys

from plimsoll import _models

folder, wanted = sys.argv[1], sys.argv[2:]
sizes_of = _models.sizes_of
_models.sizes_of = lambda request, symbols, corners=False: sizes_of(request, (), False)  # as measured: one size, one run
for line in gzip.open(os.path.join(folder, "architectures.jsonl.gz"), "rt"):
    row = json.loads(line)
    out = os.path.join(folder, "architectures", row["id"] + ".json.gz")
    if row["id"] not in wanted if wanted else os.path.exists(out):
        continue
    try:
        text = _models.describe({k: v for k, v in row.items() if k != "measured"})
    except Exception as problem:
        print(row["id"], repr(problem)[:200])
        continue
    with open(out, "wb") as f:
        f.write(gzip.compress(text.encode(), 9, mtime=0))
    print(row["id"], os.path.getsize(out))
PYTHON
