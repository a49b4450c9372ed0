#!/usr/bin/env bash
# Installs DeepSpeed (without its kernels) and Lightning for the tests of plimsoll fit --write, once for each set of requirements, beside the Python
# environment of the other tests; prints the folder. The first run takes half a minute.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PLIMSOLL_PYTHON:-$(scripts/python-env.sh)}
requirements=internal/handover/testdata/requirements.txt
key=$({ cat "$requirements"; "$python" -c 'import sys; print(sys.version)'; } | sha256sum | cut -c1-16)
extra=${XDG_CACHE_HOME:-$HOME/.cache}/plimsoll/handover-$key
mkdir -p "$(dirname "$extra")"
exec 9>"$extra.lock"
flock 9
if [ ! -e "$extra/complete" ]; then
  echo "installing $requirements into $extra" >&2
  rm -rf "$extra"
  "$python" -m pip install --quiet --disable-pip-version-check --target "$extra/build" wheel 'setuptools<82' >&2
  PYTHONPATH=$extra/build DS_BUILD_OPS=0 "$python" -m pip install --quiet --disable-pip-version-check --target "$extra" --no-deps --no-build-isolation -r "$requirements" >&2
  touch "$extra/complete"
fi
echo "$extra"
