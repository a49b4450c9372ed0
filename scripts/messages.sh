#!/usr/bin/env bash
# Scores explain on out-of-memory messages that people posted in public threads. They are not ours to keep: name the file, JSON lines with "id" and
# "message" and, where known, what must be found, in PLIMSOLL_MESSAGES, separated by colons (default: both collections in ../shared/groundtruth).
set -euo pipefail
cd "$(dirname "$0")/.."
dir=$PWD/../shared/groundtruth
export PLIMSOLL_MESSAGES=${PLIMSOLL_MESSAGES:-$dir/oom-messages.jsonl:$dir/oom-messages-2.jsonl}
go test -count=1 -run Public -v ./internal/evidence/oomtext ./internal/answer/explain
