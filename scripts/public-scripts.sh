#!/usr/bin/env bash
# Predicts the public scripts of scripts/public/list.jsonl, unmodified, with the Python of the tests (or PLIMSOLL_PYTHON), and prints one JSON object a script.
# Sources are fetched from GitHub into a cache outside the clone; what they import beside PyTorch (torchvision, timm) has to be in PYTHONPATH or in that Python.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PLIMSOLL_PYTHON:-$(scripts/python-env.sh)}
binary=$(mktemp)
trap 'rm -f "$binary"' EXIT
CGO_ENABLED=0 go build -o "$binary" ./cmd/plimsoll
"$python" scripts/public/run.py --python "$python" --plimsoll "$binary" --path "${PYTHONPATH:-}" "$@"
