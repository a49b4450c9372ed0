#!/usr/bin/env bash
# Makes the Python environment of the probe's tests, once for each set of requirements, outside the clone;
# prints its interpreter. The first run downloads PyTorch (3 GB); later runs take no time.
set -euo pipefail
cd "$(dirname "$0")/.."
requirements=internal/script/probe/testdata/requirements.txt
base=${PLIMSOLL_BASE_PYTHON:-python3}
key=$({ cat "$requirements"; "$base" -c 'import sys; print(sys.version)'; } | sha256sum | cut -c1-16)
env=${XDG_CACHE_HOME:-$HOME/.cache}/plimsoll/pyenv-$key
mkdir -p "$(dirname "$env")"
exec 9>"$env.lock"
flock 9
if [ ! -e "$env/complete" ]; then
  echo "making the Python environment of the tests in $env" >&2
  rm -rf "$env"
  "$base" -m venv "$env" >&2
  "$env/bin/python" -m pip install --quiet --disable-pip-version-check -r "$requirements" >&2
  touch "$env/complete"
fi
echo "$env/bin/python"
