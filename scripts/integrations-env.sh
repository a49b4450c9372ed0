#!/usr/bin/env bash
# Installs IPython and experiment trackers for the tests of the Python package, once for each set of requirements, beside the Python environment of the other
# tests; prints the folder.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/once.sh
python=${PLIMSOLL_PYTHON:-$(scripts/python-env.sh)}
requirements=internal/cli/testdata/integrations/requirements.txt
install() {
  "$python" -m pip install --quiet --disable-pip-version-check --target "$made" -r "$requirements" 2>/dev/null || true
  "$python" -c 'import sys; sys.path.insert(0, sys.argv[1]); import IPython, tensorboard, mlflow, wandb' "$made"
}
once integrations "$requirements" "$python" install
echo "$made"
