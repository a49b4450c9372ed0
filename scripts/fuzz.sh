#!/usr/bin/env bash
# Looks for inputs that break something: every fuzz target for FUZZTIME (default 60s; a count such as 1500x is the same on every machine).
# What breaks a target is written beside it and run by make test from then on; inputs that reach new code are kept in Go's build cache and used by the
# next run.
set -euo pipefail
cd "$(dirname "$0")/.."
git grep -n '^func Fuzz' -- '*_test.go' | sed -E 's|^(.*)/[^/]*:[0-9]+:func (Fuzz[A-Za-z]*).*|\1 \2|' | while read -r folder target; do
	(cd "$folder" && go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-60s}" -fuzzminimizetime 20x . </dev/null)
done
