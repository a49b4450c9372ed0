#!/usr/bin/env bash
# The types of the page, and the tests that need a browser or Prometheus; both are installed from Debian's packages where they are missing (needs root).
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/typescript.sh
scripts/install-chromium.sh
scripts/install-prometheus.sh
(cd browsertests && go test -count=1 ./...)
PLIMSOLL_PROMETHEUS=1 go test -count=1 ./internal/live/metrics
