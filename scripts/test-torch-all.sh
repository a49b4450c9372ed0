#!/usr/bin/env bash
# Runs the tests of captures and traces under several releases of PyTorch and prints the table of docs/measurements/torch-versions.md:
# scripts/test-torch-all.sh 2.6.0 2.9.1 2.11.0 2.13.0 2.15.0. Makes one environment a release outside the clone (3 to 5 GB each, once), with the other
# requirements of the tests.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- 2.4.1 2.6.0 2.9.1 2.11.0 2.13.0 2.15.0
base=${PLIMSOLL_BASE_PYTHON:-python3}
cache=${PLIMSOLL_OLD_TORCH:-${XDG_CACHE_HOME:-$HOME/.cache}/plimsoll/torch}
tests=$(mktemp)
trap 'rm -f "$tests"' EXIT
CGO_ENABLED=0 go test -c -o "$tests" ./internal/script/capture
echo "| PyTorch | passed | failed |"
echo "|---|---|---|"
for version in "$@"; do
  env=$cache/env-$version
  if [ ! -e "$env/complete" ]; then
    "$base" -m venv "$env" >&2
    grep -v '^torch==' internal/script/probe/testdata/requirements.txt | "$env/bin/python" -m pip install --quiet --disable-pip-version-check "torch==$version" -r /dev/stdin >&2
    touch "$env/complete"
  fi
  log=$(cd internal/script/capture && PLIMSOLL_PYTHON=$env/bin/python "$tests" -test.v -test.parallel "${PARALLEL:-2}" -test.timeout 60m ${RUN:+-test.run "$RUN"} 2>&1 || true)
  # Tests that have parts are counted by their parts.
  named() { { grep -E "^ *--- $1:" <<<"$log" || true; } | sed -E 's/^ *--- [A-Z]+: ([^ ]+) .*/\1/' | awk '{ n[NR] = $0 } END { for (i = 1; i <= NR; i++) { whole = 1; for (j = 1; j <= NR; j++) if (index(n[j], n[i] "/") == 1) whole = 0; if (whole) print n[i] } }'; }
  failed=$(named FAIL | sed 's/^Test//' | paste -sd, - | sed 's/,/, /g')
  echo "| $version | $(named PASS | wc -l) | ${failed:-none} |"
done
