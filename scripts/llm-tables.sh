#!/usr/bin/env bash
# Predicts every row of public memory tables of language models (llm-tables.jsonl: the first argument, or PLIMSOLL_LLM_TABLES) whose engine is covered, through the lowering that
# plimsoll fit writes from, and prints errors per source. docs/measurements/ has the last result. The rows are others' and not part of this repository.
set -euo pipefail
cd "$(dirname "$0")/.."
export PLIMSOLL_LLM_TABLES=${1:-${PLIMSOLL_LLM_TABLES:-$PWD/../shared/groundtruth/public/llm-tables.jsonl}}
go test -count=1 -run '^TestPublicTables$' -v ./internal/answer/predict | grep -v -E '^(=== |--- PASS|PASS|ok)'
