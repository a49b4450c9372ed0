#!/usr/bin/env bash
# CPU time and memory of explaining a million events, as ratios to Python's pickle.load in the same run, then the Go benchmarks.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/build.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
gunzip -c testdata/big.pickle.gz > "$work/big.pickle"
python3 - "$work/big.pickle" <<'PY'
import os, subprocess, sys
big, rounds = sys.argv[1], 5
def run(command):
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, _, usage = os.wait4(child.pid, 0)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
python, ours = [], []
for _ in range(rounds):  # back to back: a busy machine slows both
    python.append(run(["python3", "-c", "import pickle, sys; pickle.load(open(sys.argv[1], 'rb'))", big]))
    ours.append(run(["./plimsoll", "explain", big]))
print("| round | pickle.load | | plimsoll explain | | time | memory |\n|---|---|---|---|---|---|---|")
for i, (p, o) in enumerate(zip(python, ours), 1):
    print(f"| {i} | {p[0]:.2f} CPU-s | {p[1]:.0f} MB | {o[0]:.2f} CPU-s | {o[1]:.0f} MB | {o[0] / p[0]:.3f} | {o[1] / p[1]:.3f} |")
middle = lambda part: sorted(o[part] / p[part] for p, o in zip(python, ours))[rounds // 2]
time, memory = middle(0), middle(1)
print(f"median: {time:.3f} of the time (must be <= 0.25), {memory:.3f} of the memory (must be <= 0.30)")
sys.exit(time > 0.25 or memory > 0.30)
PY
go test -run '^$' -bench . -benchtime 1x ./internal/... ./snapshot/...
