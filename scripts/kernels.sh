#!/usr/bin/env bash
# Compares what single kernels take with the rows that Liger publishes of its benchmarks: the tables of docs/measurements/kernels.md. Needs ../shared for the rows, and LIGER, a clone of
# https://github.com/linkedin/Liger-Kernel with its history: its benchmarks are followed as they were on the day of each row. KERNEL=rms_norm follows one of them, KERNEL_RESULTS=FILE keeps what
# was followed. Without LIGER only the kernels that a job can name are compared, without Python.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/once.sh
export PLIMSOLL_KERNELS=${KERNEL_ROWS:-$PWD/../shared/groundtruth/public/liger-kernel-memory.csv}
table() { go test -count=1 -timeout 60m -run '^TestKernelsAgreeWithPublishedRows$' -v "$1" | sed -nE 's/^ +kernels_test.go:[0-9]+: //p'; }
table ./internal/model/eager
[ -n "${LIGER:-}" ] || { echo "LIGER names no clone of Liger-Kernel: its own benchmarks are not followed" >&2; exit 0; }
python=${PLIMSOLL_PYTHON:-$(scripts/python-env.sh)}
install() {
  grep -v '^#' scripts/kernels/requirements.txt | while read -r first rest; do
    # shellcheck disable=SC2086 # the packages are words
    "$python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$made/${first#transformers==}" "$first" $rest
  done
}
once kernels scripts/kernels/requirements.txt "$python" install
PLIMSOLL_LIGER=$LIGER PLIMSOLL_PYTHON=$python PLIMSOLL_TRANSFORMERS=$made table ./internal/script/capture
