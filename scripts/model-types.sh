#!/usr/bin/env bash
# Reads every model type of the installed transformers from its code, built small, and predicts each: the table of docs/measurements/model-types.md. Takes about
# twenty minutes of CPU. MODEL_TYPES names the folder of what was read, which is gone on with; results go to its results.jsonl. Arguments go to sweep.py, such as
# --again for what failed, or --only 'bert*'.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PLIMSOLL_PYTHON:-$(scripts/python-env.sh)}
folder=${MODEL_TYPES:-$(mktemp -d)}
binary=$(mktemp)
trap 'rm -f "$binary"' EXIT
CGO_ENABLED=0 go build -o "$binary" ./cmd/plimsoll
PYTHONPATH=internal/script/probe/python CUDA_VISIBLE_DEVICES= HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 "$python" scripts/models/sweep.py "$folder" "$@"
"$python" scripts/models/predict.py "$folder" "$binary" "$folder/results.jsonl"
"$python" scripts/models/report.py "$folder/results.jsonl" > docs/measurements/model-types.md
echo "$folder/results.jsonl"
