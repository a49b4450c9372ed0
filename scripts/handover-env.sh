#!/usr/bin/env bash
# Installs DeepSpeed, Lightning, torchao and bitsandbytes for the tests of plimsoll fit --write, once for each set of requirements, beside the Python
# environment of the other tests; prints the folder. The first run takes half a minute. With --kernels it also compiles DeepSpeed's optimizers for the CPU
# (g++, a few minutes, once): only with them its engine is run.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PLIMSOLL_PYTHON:-$(scripts/python-env.sh)}
requirements=internal/answer/planfile/testdata/requirements.txt
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
if [ "${1:-}" = --kernels ] && [ ! -e "$extra/kernels" ] && command -v g++ > /dev/null; then
  echo "compiling DeepSpeed's optimizers" >&2
  TORCH_EXTENSIONS_DIR=$extra/extensions DS_ACCELERATOR=cpu PYTHONPATH=$extra "$python" internal/answer/planfile/testdata/check_deepspeed.py >&2
  touch "$extra/kernels"
fi
echo "$extra"
