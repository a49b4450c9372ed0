#!/usr/bin/env bash
# Installs IPython and experiment trackers for the tests of the Python package, once for each set of requirements, beside the Python environment of the other
# tests; prints the folder.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PLIMSOLL_PYTHON:-$(scripts/python-env.sh)}
requirements=internal/cli/testdata/integrations/requirements.txt
key=$({ cat "$requirements"; "$python" -c 'import sys; print(sys.version)'; } | sha256sum | cut -c1-16)
extra=${XDG_CACHE_HOME:-$HOME/.cache}/plimsoll/integrations-$key
mkdir -p "$(dirname "$extra")"
exec 9>"$extra.lock"
flock 9
if [ ! -e "$extra/complete" ]; then
  echo "installing $requirements into $extra" >&2
  rm -rf "$extra"
  "$python" -m pip install --quiet --disable-pip-version-check --target "$extra" -r "$requirements" >&2 2>/dev/null || true
  "$python" -c 'import sys; sys.path.insert(0, sys.argv[1]); import IPython, tensorboard, mlflow, wandb' "$extra"
  touch "$extra/complete"
fi
echo "$extra"
