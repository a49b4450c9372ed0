#!/bin/sh
# Measures how often explain's findings are right on recordings whose causes are known, and writes the counts it believes (internal/answer/finding/measured.go) and the page of claimed against
# true (docs/findings.md). Folders are those of make bench-explain:
#   scripts/confidence.sh dev=testdata/bench/dev unseen=testdata/bench/unseen
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- dev=testdata/bench/dev unseen=testdata/bench/unseen
benches=
for pair; do benches="$benches ${pair%%=*}=$(cd "${pair#*=}" && pwd)"; done
printf 'package finding\n\nvar measured = map[string]Tally{}\n' > internal/answer/finding/measured.go # what rules claim by themselves is measured
PLIMSOLL_BENCHES=$benches go test ./internal/cli -run TestConfidenceIsMeasured -count=1 -v -update
go test ./internal/answer/finding -update
