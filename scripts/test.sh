#!/usr/bin/env bash
# Everything that must hold before a change lands: formatting, vet, build without cgo, all tests.
set -euo pipefail
cd "$(dirname "$0")/.."
unformatted=$(gofmt -l $(git ls-files '*.go'))
[ -z "$unformatted" ] || { echo "not gofmt'ed: $unformatted" >&2; exit 1; }
scripts/install-prometheus.sh
go vet ./...
CGO_ENABLED=0 go build ./...
# The probe is tested against a real PyTorch on the CPU. Without one (no network, no Python) those tests are skipped, in CI they fail.
if [ -z "${PLIMSOLL_PYTHON:-}" ] && python=$(scripts/python-env.sh); then
  export PLIMSOLL_PYTHON=$python
fi
if [ -n "${PLIMSOLL_PYTHON:-}" ] && extra=$(scripts/handover-env.sh); then
  export PLIMSOLL_HANDOVER=$extra
fi
go test -count=1 ./...
# A short look for inputs that break a reader; the corpus beside each target is always run above.
for target in internal/pickle:FuzzRead snapshot:FuzzRead internal/notes:FuzzRead internal/oomtext:FuzzRead internal/explain:FuzzExplain; do
	go test -run '^$' -fuzz "^${target#*:}\$" -fuzztime 5s -fuzzminimizetime 20x "./${target%%:*}"
done
