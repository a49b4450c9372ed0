#!/usr/bin/env bash
# Takes the pictures in docs/images from the recordings in testdata.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install-chromium.sh
mkdir -p docs/images
cd browsertests
go run ./screenshots
