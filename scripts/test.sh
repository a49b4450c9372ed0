#!/usr/bin/env bash
# Everything that must hold and needs nothing but Go: formatting, vet, staticcheck, licences, a build without cgo, all Go tests, the bundle of the page.
set -euo pipefail
cd "$(dirname "$0")/.."
unset PLIMSOLL_PYTHON PLIMSOLL_HANDOVER PLIMSOLL_INTEGRATIONS PLIMSOLL_PROMETHEUS # what needs PyTorch or Prometheus has targets of its own
export CGO_ENABLED=0 # as the binary is built; with cgo, what reaches the network would be compiled a second time
unformatted=$(gofmt -l $(git ls-files '*.go'))
[ -z "$unformatted" ] || { echo "not gofmt'ed: $unformatted" >&2; exit 1; }
go build ./...
log=$(mktemp)
trap 'rm -f "$log"' EXIT
{
	go vet ./...
	go tool staticcheck ./...
	scripts/licences.sh
	(cd tools && go vet ./... && go test -vet=off ./...)
	(cd browsertests && go vet ./...)
} >"$log" 2>&1 &
checks=$!
failed=0
go test -vet=off -timeout 20m ./... || failed=1 # go vet runs beside them, with all its checks
wait "$checks" || { cat "$log" >&2; failed=1; }
exit "$failed"
