#!/usr/bin/env bash
# Checks `plimsoll run` on a machine with a GPU and writes a table: scripts/gpu-run-check.sh [OUT.md [PART...]]
# Parts: fitting healthy sick overhead (together about six minutes) and predictions (four); without any, all.
# Needs a Python with torch and transformers ($PLIMSOLL_PYTHON, else python3) and ./plimsoll, or $PLIMSOLL, built by scripts/build.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
"${PLIMSOLL_PYTHON:-python3}" internal/script/probe/testdata/gpu/check.py "${PLIMSOLL:-./plimsoll}" "${1:-run-check.md}" "${@:2}"
