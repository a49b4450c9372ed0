#!/usr/bin/env bash
# Scores lint on bugs that people fixed in public repositories. Neither the list nor the code is ours to keep: name the list, JSON lines with
# "id", "repository", "commit", "path", "needle" and "rules", in PLIMSOLL_LINT_CASES (default: ../shared/groundtruth), and a folder of git
# directories, owner+name/repo, in PLIMSOLL_LINT_MIRRORS. The files of each commit are laid out in a cache folder, once.
set -euo pipefail
cd "$(dirname "$0")/.."
export PLIMSOLL_LINT_CASES=${PLIMSOLL_LINT_CASES:-$PWD/../shared/groundtruth/lint-cases.jsonl}
export PLIMSOLL_LINT_CHECKOUTS=${PLIMSOLL_LINT_CHECKOUTS:-${XDG_CACHE_HOME:-$HOME/.cache}/plimsoll/lint-checkouts}
if [ -n "${PLIMSOLL_LINT_MIRRORS:-}" ]; then
  python3 scripts/lint-checkouts.py "$PLIMSOLL_LINT_CASES" "$PLIMSOLL_LINT_MIRRORS" "$PLIMSOLL_LINT_CHECKOUTS"
fi
go test -count=1 -run PublicBugs -v ./internal/code/workspace
