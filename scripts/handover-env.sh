#!/usr/bin/env bash
# Installs DeepSpeed, Lightning, torchao and bitsandbytes for the tests of plimsoll fit --write, once for each set of requirements, beside the Python
# environment of the other tests; prints the folder. The first run takes half a minute. With --kernels it also compiles DeepSpeed's optimizers for the CPU
# (g++, a few minutes, once): only with them its engine is run.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/once.sh
python=${PLIMSOLL_PYTHON:-$(scripts/python-env.sh)}
requirements=internal/answer/planfile/testdata/requirements.txt
install() {
  "$python" -m pip install --quiet --disable-pip-version-check --target "$made/build" wheel 'setuptools<82'
  PYTHONPATH=$made/build DS_BUILD_OPS=0 "$python" -m pip install --quiet --disable-pip-version-check --target "$made" --no-deps --no-build-isolation -r "$requirements"
}
once handover "$requirements" "$python" install
if [ "${1:-}" = --kernels ] && [ ! -e "$made/kernels" ] && command -v g++ > /dev/null; then
  echo "compiling DeepSpeed's optimizers" >&2
  TORCH_EXTENSIONS_DIR=$made/extensions DS_ACCELERATOR=cpu PYTHONPATH=$made "$python" internal/answer/planfile/testdata/check_deepspeed.py >&2
  touch "$made/kernels"
fi
echo "$made"
