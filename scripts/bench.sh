#!/usr/bin/env bash
# Speed and memory of reading a million events, as ratios against Python's pickle.load in the same run, then the Go benchmarks.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/build.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
gunzip -c testdata/big.pickle.gz > "$work/big.pickle"
python3 - "$work/big.pickle" <<'PY'
import os, subprocess, sys, time
big = sys.argv[1]
def run(command):
    start = time.time()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, _, usage = os.wait4(child.pid, 0)
    return time.time() - start, usage.ru_maxrss / 1024
def best(command):
    runs = [run(command) for _ in range(3)]
    return min(r[0] for r in runs), min(r[1] for r in runs)
python = best(["python3", "-c", "import pickle, sys; pickle.load(open(sys.argv[1], 'rb'))", big])
ours = best(["./plimsoll", "explain", big])
print(f"pickle.load       {python[0]:6.2f} s {python[1]:7.0f} MB")
print(f"plimsoll explain  {ours[0]:6.2f} s {ours[1]:7.0f} MB   time x{ours[0] / python[0]:.2f}, memory x{ours[1] / python[1]:.2f} (must be <= 0.40)")
sys.exit(ours[0] > 0.4 * python[0] or ours[1] > 0.4 * python[1])
PY
go test -run '^$' -bench . -benchtime 1x ./internal/... ./snapshot/...
