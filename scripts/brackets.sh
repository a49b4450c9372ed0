#!/usr/bin/env bash
# Says of 200 batches of timm's models whether they fit on an RTX 3090, and compares with what happened there in 2022: brackets.sh BRACKETS.csv
# (columns model, layout, img_size, batch_that_ran, next_batch_tried, bracket). docs/measurements/timm-brackets.md has the result.
# The models are exported once, with timm of that year, into a cache outside the clone: ten minutes on two cores.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/once.sh
brackets=${1:-${BRACKETS:-../shared/groundtruth/public/timm-train-batch-brackets.csv}}
python=${PLIMSOLL_PYTHON:-$(scripts/python-env.sh)}
requirements=scripts/timm/requirements.txt
install() { "$python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$made" -r "$requirements"; }
once timm "$requirements" "$python" install
folder=${BRACKET_GRAPHS:-${XDG_CACHE_HOME:-$HOME/.cache}/plimsoll/brackets}
PYTHONPATH=$made "$python" scripts/timm/graphs.py "$brackets" "$folder"
PLIMSOLL_BRACKETS=$folder go test -count=1 -run '^TestPublicBrackets$' -v ./internal/answer/predict | sed -nE 's/^ +brackets_test.go:[0-9]+: //p'
