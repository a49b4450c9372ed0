#!/usr/bin/env bash
# Looks for inputs that break something: every fuzz target for FUZZTIME (default 60s; a count such as 1500x is the same on every machine).
# What breaks a target is written beside it and run by make test from then on; inputs that reach new code are kept in Go's build cache and used by the
# next run.
set -euo pipefail
cd "$(dirname "$0")/.."
export CGO_ENABLED=0 # as make test
binary=$(mktemp)
trap 'rm -f "$binary"' EXIT
git grep -l '^func Fuzz' -- '*_test.go' | xargs dirname | sort -u | while read -r folder; do
	go test -c -fuzz . -o "$binary" "./$folder" # once for all targets of a package
	kept=$(go env GOCACHE)/fuzz/$(go list "./$folder")
	for target in $(grep -ho '^func Fuzz[A-Za-z0-9]*' "$folder"/*_test.go | cut -d' ' -f2); do
		echo "$folder $target"
		(cd "$folder" && "$binary" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "${FUZZTIME:-60s}" -test.fuzzminimizetime 20x -test.fuzzcachedir "$kept" </dev/null)
	done
done
