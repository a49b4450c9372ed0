#!/usr/bin/env bash
# Measures what hostile inputs cost, each in a process of its own: the inputs of the first trial one by one, the generated ones by kind. Prints the tables of
# docs/measurements/2026-11-16-robustness.md.
set -euo pipefail
cd "$(dirname "$0")/.."
table=$(mktemp)
trap 'rm -f "$table"' EXIT
for test in TestInputsOfTheFirstTrial TestWhatHostileInputsCost; do
	PLIMSOLL_TABLE=$table go test -count=1 -timeout 20m -run "^$test\$" ./internal/cli >&2
	echo >>"$table"
done
cat "$table"
