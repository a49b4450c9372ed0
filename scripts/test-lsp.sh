#!/usr/bin/env bash
# Tests the language server with a client that others wrote: pygls, in an environment of its own outside the clone, made once.
set -euo pipefail
cd "$(dirname "$0")/.."
env=${XDG_CACHE_HOME:-$HOME/.cache}/plimsoll/lsp-client-2.1.1
if [ ! -e "$env/complete" ]; then
  rm -rf "$env"
  "${PLIMSOLL_BASE_PYTHON:-python3}" -m venv "$env"
  "$env/bin/python" -m pip install --quiet --disable-pip-version-check pygls==2.1.1 lsprotocol==2025.0.0
  touch "$env/complete"
fi
binary=$(mktemp -d)
trap 'rm -rf "$binary"' EXIT
go build -o "$binary/plimsoll" ./cmd/plimsoll
PLIMSOLL_LSP_PYTHON=$env/bin/python PLIMSOLL_BINARY=$binary/plimsoll go test -count=1 ./internal/code/langserver -run AnotherClient "$@"
