#!/usr/bin/env bash
# The same commit gives the same bytes: builds it in two other folders, each with a build cache of its own, and compares.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for n in one two; do
	git clone -q --no-local . "$work/$n/plimsoll"
	(cd "$work/$n/plimsoll" && GOCACHE="$work/$n/cache" CGO_ENABLED=0 go build -trimpath -o "../binary" ./cmd/plimsoll)
done
sha256sum "$work"/*/binary
cmp "$work/one/binary" "$work/two/binary"
