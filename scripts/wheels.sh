#!/usr/bin/env bash
# Builds wheels that carry the binary and the probe, one for each platform, into dist/: scripts/wheels.sh [VERSION] [GOOS/GOARCH...]
# `pip install dist/plimsoll-*.whl` gives the command plimsoll and the package `import plimsoll`.
set -euo pipefail
cd "$(dirname "$0")/.."
version=${1:-0.1.0}
shift || true
platforms=("$@")
[ ${#platforms[@]} -gt 0 ] || platforms=(linux/amd64 linux/arm64 darwin/amd64 darwin/arm64)
out=${WHEEL_DIR:-dist}
mkdir -p "$out"
for platform in "${platforms[@]}"; do
  binary=$(mktemp)
  GOOS=${platform%/*} GOARCH=${platform#*/} CGO_ENABLED=0 go build -trimpath \
    -ldflags "-s -w -X github.com/plimsoll/plimsoll/internal/cli.Version=$version" -o "$binary" ./cmd/plimsoll
  python3 scripts/wheel.py "$version" "$platform" "$binary" internal/script/probe/python/plimsoll "$out"
  rm -f "$binary"
done
