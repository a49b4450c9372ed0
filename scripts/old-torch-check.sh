#!/usr/bin/env bash
# Tries the probe under other versions of PyTorch: scripts/old-torch-check.sh 2.1.2 2.4.1 …
# Makes one environment a version outside the clone (3 GB each, once) and prints the table of docs/measurements/old-torch.md.
set -euo pipefail
cd "$(dirname "$0")/.."
base=${PLIMSOLL_BASE_PYTHON:-python3}
cache=${PLIMSOLL_OLD_TORCH:-${XDG_CACHE_HOME:-$HOME/.cache}/plimsoll/torch}
binary=$(mktemp)
trap 'rm -f "$binary"' EXIT
CGO_ENABLED=0 go build -o "$binary" ./cmd/plimsoll
echo "| PyTorch | run | run --fit --split 4 | --checkpoint | left alone | predict -- |"
echo "|---|---|---|---|---|---|"
for version in "$@"; do
  env=$cache/env-$version
  if [ ! -e "$env/complete" ]; then
    rm -rf "$env"
    "$base" -m venv "$env" >&2
    # PyTorch before 2.3 was built against NumPy 1.
    numpy=$([ "$(printf '%s\n2.3\n' "$version" | sort -V | head -1)" = "$version" ] && echo 'numpy<2' || echo numpy)
    "$env/bin/python" -m pip install --quiet --disable-pip-version-check "torch==$version" "$numpy" >&2
    touch "$env/complete"
  fi
  "$env/bin/python" scripts/old-torch-check.py "$binary"
done
