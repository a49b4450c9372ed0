#!/usr/bin/env bash
# The types of the page, and the tests that need a browser or Prometheus; both are installed from Debian's packages where they are missing (needs root).
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/typescript.sh
scripts/install-chromium.sh
scripts/install-prometheus.sh
axe=${XDG_CACHE_HOME:-$HOME/.cache}/plimsoll/axe-4.10.3
[ -f "$axe/node_modules/axe-core/axe.min.js" ] || npm install --silent --no-audit --no-fund --prefix "$axe" axe-core@4.10.3 >&2 || echo "axe-core is missing: accessibility is not checked" >&2
export PLIMSOLL_AXE=$axe/node_modules/axe-core/axe.min.js
export CGO_ENABLED=0 # as make test, which has compiled most of it
(cd browsertests && go test -vet=off -timeout 40m -count=1 ./...)
PLIMSOLL_PROMETHEUS=1 go test -vet=off -count=1 ./internal/live/metrics
