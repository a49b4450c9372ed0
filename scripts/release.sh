#!/usr/bin/env bash
# Builds everything that is published: archives, wheels, checksums, a bill of materials, man pages, completions, a Homebrew formula, into dist/.
# Arguments go to internal/release: scripts/release.sh -only linux/amd64 -out /tmp/dist
set -euo pipefail
cd "$(dirname "$0")/.."
go run ./internal/release "$@"
