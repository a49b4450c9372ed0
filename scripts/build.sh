#!/usr/bin/env bash
# Builds ./plimsoll, a binary without cgo.
set -euo pipefail
cd "$(dirname "$0")/.."
CGO_ENABLED=0 go build -trimpath -o plimsoll ./cmd/plimsoll
