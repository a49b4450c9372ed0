#!/usr/bin/env bash
# Predicts the public scripts of scripts/public/list.jsonl, unmodified, with the Python of the tests (or PLIMSOLL_PYTHON), and prints the table of
# docs/measurements/public-scripts.md. Results go to public-scripts.jsonl in the cache (or in the file RESULTS names); scripts that it has already are left out.
# Sources are fetched from GitHub into a cache outside the clone; what they import beside PyTorch (torchvision, trl, …) has to be in PYTHONPATH or in that Python.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PLIMSOLL_PYTHON:-$(scripts/python-env.sh)}
results=${RESULTS:-${XDG_CACHE_HOME:-$HOME/.cache}/plimsoll/public-scripts.jsonl}
binary=$(mktemp)
trap 'rm -f "$binary"' EXIT
CGO_ENABLED=0 go build -o "$binary" ./cmd/plimsoll
"$python" scripts/public/run.py --python "$python" --plimsoll "$binary" --path "${PYTHONPATH:-}" --results "$results" "$@" >&2
"$python" scripts/public/table.py "$results"
