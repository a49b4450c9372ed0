#!/usr/bin/env bash
# What takes too long for make test: 10,000 short runs without a leak of files or processes, 10,000 requests at 200 at a time, and other seeds of the
# corpus of hostile inputs, and other messages torn and cut. Figures go into docs/security.md.
set -euo pipefail
cd "$(dirname "$0")/.."
PLIMSOLL_RUNS=${RUNS:-10000} go test -count=1 -timeout 30m -run 'TestManyShortRuns' -v ./internal/script/runner | grep -v '^==='
PLIMSOLL_REQUESTS=${REQUESTS:-10000} go test -count=1 -timeout 20m -run 'TestTwoHundredClients|TestServersAnswer|TestTheAgentsServer' -v ./internal/live/listener ./internal/cli | grep -v '^==='
for seed in ${SEEDS:-1 2 3}; do
	PLIMSOLL_HOSTILE_SEED=$seed go test -count=1 -run 'TestHostileInputs' -v ./internal/cli | grep -v '^==='
done
go test -count=1 -timeout 30m -run 'TestWrapping|TestACut|TestATerminal|TestInterleaved|TestDress' ./internal/evidence/oomtext -rapid.seed="${RANDOM}${RANDOM}" -rapid.checks="${CHECKS:-4000}"
