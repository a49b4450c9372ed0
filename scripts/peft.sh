#!/usr/bin/env bash
# Compares predictions of LoRA, DoRA and full training with the rows that PEFT publishes: the table of docs/measurements/peft.md. Needs ../shared.
set -euo pipefail
cd "$(dirname "$0")/.."
rows=${PEFT_ROWS:-../shared/groundtruth/public/peft-method-comparison.jsonl}
binary=${PLIMSOLL:-$(mktemp)}
[ -n "${PLIMSOLL:-}" ] || CGO_ENABLED=0 go build -o "$binary" ./cmd/plimsoll
python3 scripts/peft/compare.py "$rows" "$binary" "$PWD/scripts/peft/llama-3.2-3b.json"
[ -n "${PLIMSOLL:-}" ] || rm -f "$binary"
