#!/usr/bin/env bash
# Holds what plimsoll fit --write prints to the libraries that read it: constructs, parses or runs one step of each on the CPU. The first run
# installs DeepSpeed (without its kernels) and Lightning beside the Python environment of the other tests.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(scripts/python-env.sh)
requirements=internal/handover/testdata/requirements.txt
extra=$(dirname "$(dirname "$python")")-handover-$(sha256sum "$requirements" | cut -c1-8)
if [ ! -e "$extra/complete" ]; then
  echo "installing $requirements into $extra" >&2
  rm -rf "$extra"
  "$python" -m pip install --quiet --disable-pip-version-check --target "$extra/build" wheel 'setuptools<82' >&2
  grep -v '^#' "$requirements" | while read -r package; do
    PYTHONPATH=$extra/build DS_BUILD_OPS=0 "$python" -m pip install --quiet --disable-pip-version-check --target "$extra" --no-deps --no-build-isolation "$package" >&2
  done
  touch "$extra/complete"
fi
PLIMSOLL_PYTHON=$python PYTHONPATH=$extra go test -count=1 -run RealLibraries -v ./internal/handover | grep -E 'ok|FAIL|---'
