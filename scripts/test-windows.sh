#!/usr/bin/env bash
# The verbs that read files, on the Windows binary under wine: scripts/test-windows.sh WINE PLIMSOLL.EXE. What they print must be what this system's binary prints.
set -euo pipefail
cd "$(dirname "$0")/.."
wine=$1 exe=$2
export WINEDEBUG=-all
here=$(mktemp)
trap 'rm -f "$here"' EXIT
CGO_ENABLED=0 go build -trimpath -o "$here" ./cmd/plimsoll
same() {
  local want got
  want=$("$here" "$@" 2>/dev/null) || true
  got=$("$wine" "$exe" "$@" 2>/dev/null | tr -d '\r') || true
  [ -n "$want" ] && [ "$want" = "$got" ] || { echo "differs: plimsoll $*"; diff <(echo "$want") <(echo "$got") | head -5; exit 1; }
}
snapshot=testdata/snapshots/oom-batch.pickle.gz
same explain --json $snapshot
same replay --json $snapshot
same predict --config docs/answers/gpt2.json --batch 4 --seq 512 --gpu t4 --json
same fit --config docs/answers/gpt2.json --seq 512 --effective-batch 8 --gpu t4 --json
same diff $snapshot $snapshot
same lint --json docs/answers internal/script/probe/testdata/holders/losses_list.py
"$wine" "$exe" view --html "$here.html" $snapshot >/dev/null 2>&1 && grep -q '</html>' "$here.html" && rm -f "$here.html"
