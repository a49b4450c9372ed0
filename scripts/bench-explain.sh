#!/bin/sh
# Measures explain on recordings whose causes are known. DIR holds truth.jsonl and the recordings:
#   {"program":"leak.py","truth":["growth"],"also_ok":[],"line":17}       truth: ids of findings; none: healthy
# Prints for each recording what was said first, then how often it was right, and claimed against true confidence.
set -eu
cd "$(dirname "$0")/.."
: "${DIR:?usage: make bench-explain DIR=folder}"
PLIMSOLL_BENCH=$(cd "$DIR" && pwd) go test ./internal/cli -run TestCausesOfABench -count=1 -v | sed -n 's/^ *causes_test.go:[0-9]*: //p'
