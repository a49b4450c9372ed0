#!/usr/bin/env bash
# Holds what plimsoll fit --write prints to the libraries that read it: constructs, parses or runs one step of each on the CPU.
set -euo pipefail
cd "$(dirname "$0")/.."
export PLIMSOLL_PYTHON=${PLIMSOLL_PYTHON:-$(scripts/python-env.sh)}
PLIMSOLL_HANDOVER=$(scripts/handover-env.sh --kernels) go test -count=1 -timeout 30m -run RealLibraries -v ./internal/answer/planfile | grep -E 'ok|FAIL|---'
