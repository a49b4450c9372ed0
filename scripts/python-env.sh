#!/usr/bin/env bash
# Makes the Python environment of the probe's tests, once for each set of requirements, outside the clone;
# prints its interpreter. The first run downloads PyTorch (3 GB); later runs take no time.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/once.sh
requirements=internal/script/probe/testdata/requirements.txt
base=${PLIMSOLL_BASE_PYTHON:-python3}
install() {
  "$base" -m venv "$made"
  "$made/bin/python" -m pip install --quiet --disable-pip-version-check -r "$requirements"
}
once pyenv "$requirements" "$base" install
echo "$made/bin/python"
