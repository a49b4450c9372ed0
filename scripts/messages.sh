#!/usr/bin/env bash
# Scores explain on out-of-memory messages that people posted in public threads. They are not ours to keep: name the file, JSON lines with "id" and
# "message", in PLIMSOLL_MESSAGES (default: ../shared/groundtruth/oom-messages.jsonl).
set -euo pipefail
cd "$(dirname "$0")/.."
export PLIMSOLL_MESSAGES=${PLIMSOLL_MESSAGES:-$PWD/../shared/groundtruth/oom-messages.jsonl}
go test -count=1 -run Public -v ./internal/evidence/oomtext ./internal/answer/explain
