#!/usr/bin/env bash
# The verbs that read files, on the Windows binary under wine: scripts/test-windows.sh WINE PLIMSOLL.EXE. What they print must be what this system's binary prints.
# Exit code 77: wine cannot run it here.
set -euo pipefail
cd "$(dirname "$0")/.."
wine=$1 exe=$2
work=$(mktemp -d)
trap '"$wine" wineboot -k >/dev/null 2>&1 || true; for n in 1 2 3 4 5; do rm -rf "$work" 2>/dev/null && break; sleep 1; done' EXIT
export WINEPREFIX=$work/wine WINEDEBUG=-all WINEDLLOVERRIDES="mscoree,mshtml=" DISPLAY=
"$wine" wineboot -i >/dev/null 2>&1
# Go takes its random numbers from bcryptprimitives.dll, which wine has from version 9 on; an older one gets a library with that one function.
system=$WINEPREFIX/drive_c/windows/system32
if [ ! -e "$system/bcryptprimitives.dll" ]; then
  command -v x86_64-w64-mingw32-gcc >/dev/null || { echo "wine has no bcryptprimitives.dll, and there is no x86_64-w64-mingw32-gcc to make one"; exit 77; }
  x86_64-w64-mingw32-gcc -shared -O1 -o "$system/bcryptprimitives.dll" -xc - -ladvapi32 <<'C'
#include <windows.h>
#include <ntsecapi.h>
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T n) { return RtlGenRandom(data, (ULONG)n); }
C
fi
here=$work/plimsoll
CGO_ENABLED=0 go build -trimpath -o "$here" ./cmd/plimsoll
same() {
  local want got
  want=$("$here" "$@" 2>/dev/null) || true
  got=$("$wine" "$exe" "$@" 2>/dev/null | tr -d '\r' | if [ "$1" = lint ]; then sed 's#\\\\#/#g'; else cat; fi) || true # names of files as Windows has them
  [ -n "$want" ] && [ "$want" = "$got" ] || { echo "differs: plimsoll $*"; diff <(echo "$want") <(echo "$got") | head -5; exit 1; }
}
snapshot=testdata/snapshots/oom-batch.pickle.gz
same explain --json $snapshot
same replay --json $snapshot
same predict --config docs/answers/gpt2.json --batch 4 --seq 512 --gpu t4 --json
same fit --config docs/answers/gpt2.json --seq 512 --effective-batch 8 --gpu t4 --json
same diff $snapshot $snapshot
same lint --json docs/answers internal/script/probe/testdata/holders/losses_list.py
page=$work/page.html
"$wine" "$exe" view --html "$page" $snapshot >/dev/null 2>&1 && grep -q '</html>' "$page"
