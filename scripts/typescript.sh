#!/usr/bin/env bash
# Checks the types of the page's TypeScript with the compiler from npm, installed once outside the clone.
set -euo pipefail
cd "$(dirname "$0")/.."
version=5.9.3
command -v npm >/dev/null || { echo "npm is missing: the page's types are not checked" >&2; [ -z "${CI:-}" ]; exit; }
folder=${XDG_CACHE_HOME:-$HOME/.cache}/plimsoll/typescript-$version
[ -x "$folder/node_modules/.bin/tsc" ] || npm install --silent --no-audit --no-fund --prefix "$folder" "typescript@$version" >&2
"$folder/node_modules/.bin/tsc" --noEmit --project internal/show/page/src
