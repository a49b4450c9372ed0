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
go test -count=1 -timeout 40m ./... # tests of the probe start PyTorch some two hundred times
# The bundle of the page is what its sources make, and the page keeps its promises in a real browser.
(cd tools && go vet ./... && go test -count=1 ./...)
scripts/install-chromium.sh
(cd browsertests && go vet ./... && go test -count=1 ./...)
# A short look for inputs that break a reader, counted in inputs, not seconds; the corpus beside each target is always run above.
git grep -n '^func Fuzz' -- '*_test.go' | sed -E 's|^(.*)/[^/]*:[0-9]+:func (Fuzz[A-Za-z]*).*|\1 \2|' | while read -r folder target; do
	(cd "$folder" && go test -run '^$' -fuzz "^$target\$" -fuzztime 1500x -fuzzminimizetime 20x . </dev/null)
done
