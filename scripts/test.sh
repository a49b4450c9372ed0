#!/usr/bin/env bash
# Everything that must hold and needs nothing but Go: formatting, vet, staticcheck, licences, a build without cgo, all Go tests, the bundle of the page.
set -euo pipefail
cd "$(dirname "$0")/.."
unset PLIMSOLL_PYTHON PLIMSOLL_HANDOVER PLIMSOLL_INTEGRATIONS PLIMSOLL_PROMETHEUS # what needs PyTorch or Prometheus has targets of its own
unformatted=$(gofmt -l $(git ls-files '*.go'))
[ -z "$unformatted" ] || { echo "not gofmt'ed: $unformatted" >&2; exit 1; }
CGO_ENABLED=0 go build ./...
go vet ./...
go tool staticcheck ./...
scripts/licences.sh
(cd tools && go vet ./... && go test ./...)
(cd browsertests && go vet ./...)
go test -timeout 20m ./...
