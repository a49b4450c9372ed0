#!/usr/bin/env bash
# Bundles the page of plimsoll view from internal/page/src into internal/page/assets.
set -euo pipefail
cd "$(dirname "$0")/../tools"
go run ./bundle
