#!/usr/bin/env bash
# scripts/cpu-ratio.sh N OLD NEW ARGS…: CPU seconds of two builds of plimsoll for the same command, N times, and their ratio. Both run at the same time on one
# processor each, so that whatever else the machine does slows both down.
set -euo pipefail
runs=$1 old=$2 new=$3
shift 3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for _ in $(seq "$runs"); do
  for which in old new; do
    GOMAXPROCS=1 /usr/bin/time -f "%U %S" -o "$folder/$which" "${!which}" "$@" >/dev/null 2>&1 &
  done
  wait
  paste <(tail -n 1 "$folder/old") <(tail -n 1 "$folder/new") | awk '{ printf "%.2f %.2f %.2f\n", $1 + $2, $3 + $4, ($3 + $4) / ($1 + $2) }'
done
