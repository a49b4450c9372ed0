#!/usr/bin/env bash
# The tests that need PyTorch, on the CPU: the probe, captures, runs, written plans. The first run downloads PyTorch (3 GB) into a cache outside the clone.
set -euo pipefail
cd "$(dirname "$0")/.."
export PLIMSOLL_PYTHON=${PLIMSOLL_PYTHON:-$(scripts/python-env.sh)}
export PLIMSOLL_HANDOVER=${PLIMSOLL_HANDOVER:-$(scripts/handover-env.sh)}
export PLIMSOLL_INTEGRATIONS=${PLIMSOLL_INTEGRATIONS:-$(scripts/integrations-env.sh)}
export CGO_ENABLED=0 # as make test, which has compiled most of it
export OMP_NUM_THREADS=1 # several interpreters run at a time: threads that wait for each other would keep a core busy
# Tests wait for processes, too: a few more than there are cores keep these busy.
go test -count=1 -vet=off -timeout 40m -parallel $(($(nproc) + 1)) $(go run ./internal/testkit/torchtests)
