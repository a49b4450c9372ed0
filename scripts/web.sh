#!/usr/bin/env bash
# Bundles the page of plimsoll view from internal/show/page/src into internal/show/page/assets.
set -euo pipefail
cd "$(dirname "$0")/../tools"
go run ./bundle
