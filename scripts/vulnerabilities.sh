#!/usr/bin/env bash
# Known vulnerabilities in what the binary calls, by govulncheck (pinned in tools/go.mod). Asks vuln.go.dev.
set -euo pipefail
cd "$(dirname "$0")/../tools"
go tool govulncheck -C .. ./cmd/plimsoll
