#!/usr/bin/env bash
# On a machine with an NVIDIA GPU and PyTorch: starts scripts that leak, that are healthy and that end, watches them, and
# compares every reading with nvidia-smi's. Takes about three minutes and a half.
#   scripts/gpu-watch-check.sh RESULT.txt [PLIMSOLL]
# PLIMSOLL is a ready binary; without it one is built. The result is a text with the commands and what they printed; the exit code
# is 0 when everything held.
set -uo pipefail
cd "$(dirname "$0")/.."
result=${1:?usage: scripts/gpu-watch-check.sh RESULT.txt [PLIMSOLL]}
plimsoll=${2:-}
python=$(command -v python3 || command -v python)
work=$(mktemp -d)
pids=()
cleanup() { [ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null; rm -rf "$work"; }
trap cleanup EXIT
if [ -z "$plimsoll" ]; then
  CGO_ENABLED=0 go build -trimpath -o "$work/plimsoll" ./cmd/plimsoll || exit 1
  plimsoll=$work/plimsoll
fi
plimsoll=$(readlink -f "$plimsoll")
mkdir -p "$(dirname "$result")"
: >"$result"
say() { echo "$@" | tee -a "$result"; }
failures=0
verdict() { # verdict 0|1 text
  if [ "$1" = 0 ]; then say "ok      $2"; else say "FAILED  $2"; failures=$((failures + 1)); fi
}

# A leak of 200 MiB a minute in tensors of 4 MiB: the allocator takes it from CUDA in segments of 20 MiB.
cat >"$work/leak.py" <<'PY'
import time, torch
kept = [torch.zeros(1 << 28, dtype=torch.uint8, device="cuda")]
t0 = time.time()
while True:
    while (len(kept) - 1) * 4 < (time.time() - t0) / 60 * 200:
        kept.append(torch.zeros(4 << 20, dtype=torch.uint8, device="cuda"))
    time.sleep(0.2)
PY
# A healthy loop: grows to 2 GiB and gives everything back, every twelve seconds.
cat >"$work/sawtooth.py" <<'PY'
import time, torch
held = torch.zeros(1 << 28, dtype=torch.uint8, device="cuda")
while True:
    epoch = []
    for _ in range(20):
        epoch.append(torch.zeros(100 << 20, dtype=torch.uint8, device="cuda"))
        time.sleep(0.5)
    epoch.clear()
    torch.cuda.empty_cache()
    time.sleep(2)
PY
cat >"$work/steady.py" <<'PY'
import time, torch
x = torch.zeros(3 << 30, dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
time.sleep(600)
PY

# compare.py: reads watch --json between two readings of nvidia-smi; a number must lie within what nvidia-smi said before and after
# (it prints whole MiB, so one MiB of slack).
cat >"$work/compare.py" <<'PY'
import json, subprocess, sys
plimsoll = sys.argv[1]
MIB = 1 << 20
def smi(query, fields):
    out = subprocess.run(["nvidia-smi", f"--query-{query}={fields}", "--format=csv,noheader,nounits"], capture_output=True, text=True).stdout
    return [[c.strip() for c in line.split(",")] for line in out.splitlines() if line.strip()]
def look():
    cards = {r[0]: int(r[1]) for r in smi("gpu", "uuid,memory.used") if r[1].isdigit()}
    apps = {(r[0], int(r[1])): int(r[2]) for r in smi("compute-apps", "gpu_uuid,pid,used_memory") if r[1].isdigit() and r[2].isdigit()}
    return cards, apps
before = look()
w = json.loads(subprocess.run([plimsoll, "watch", "--once", "--json"], capture_output=True, text=True).stdout)
after = look()
bad = 0; worst = 0.0; compared = 0
def check(what, got, a, b):
    global bad, worst, compared
    compared += 1
    got /= MIB
    lo, hi = min(a, b) - 1, max(a, b) + 1
    worst = max(worst, lo - got, got - hi, 0)
    if not lo <= got <= hi:
        bad += 1
        print(f"  {what}: plimsoll {got:.1f} MiB, nvidia-smi {a} before and {b} after")
for c in w["cards"]:
    if c["id"] in before[0] and c["id"] in after[0]:
        check("card " + c["id"], c["used"], before[0][c["id"]], after[0][c["id"]])
    for p in c["processes"]:
        k = (c["id"], p["pid"])
        if p["bytes"] is not None and k in before[1] and k in after[1]:
            check(f"pid {p['pid']}", p["bytes"], before[1][k], after[1][k])
listed = {k for k in before[1] if k in after[1]}
seen = {(c["id"], p["pid"]) for c in w["cards"] for p in c["processes"]}
for k in listed - seen:
    bad += 1
    print(f"  pid {k[1]} is missing from watch")
print(f"  {compared} numbers compared ({w['source']}), {bad} outside what nvidia-smi said, worst by {worst:.1f} MiB")
sys.exit(1 if bad or not compared else 0)
PY

say "plimsoll watch, metrics and doctor against nvidia-smi and running PyTorch scripts"
say "$(date -u +%Y-%m-%dT%H:%MZ)  $(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader | head -8 | tr '\n' ';')"
say "PyTorch $("$python" -c 'import torch; print(torch.__version__)')  $("$plimsoll" --version)"
say ""

# The sawtooth starts later: a number that goes up and down cannot be held against readings before and after it.
"$python" "$work/leak.py" & leak=$!; pids+=($leak)
"$python" "$work/steady.py" & steady=$!; pids+=($steady)
for _ in $(seq 20); do
  used=$(nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits | awk '{s+=$1} END {print s}')
  [ "$used" -ge 3500 ] && break
  sleep 1
done
sleep 3

say '$ plimsoll watch --once --json, between two readings of nvidia-smi, five times'
for _ in 1 2 3 4 5; do
  out=$("$python" "$work/compare.py" "$plimsoll" 2>&1); code=$?
  say "$out"
  verdict $code "readings equal nvidia-smi's within one sample"
  sleep 2
done
say ""

"$python" "$work/sawtooth.py" & saw=$!; pids+=($saw)
sleep 8
say '$ plimsoll metrics, scraped while watching'
"$plimsoll" metrics --listen 127.0.0.1:19740 --interval 1s 2>/dev/null & exporter=$!; pids+=($exporter)
say '$ plimsoll watch --once --for 110s --json'
started=$(date +%s)
cpu_before=$(cut -d' ' -f14,15 /proc/$exporter/stat | tr ' ' '+' | head -1)
"$plimsoll" watch --once --for 110s --json >"$work/watch.json"; watch_code=$?
cpu_after=$(cut -d' ' -f14,15 /proc/$exporter/stat | tr ' ' '+' | head -1)
seconds=$(($(date +%s) - started))
say "  exit code $watch_code after $seconds s; the exporter used $(awk "BEGIN{printf \"%.2f\", (($cpu_after)-($cpu_before))/$seconds}") % of a core at one reading a second"
"$python" - "$work/watch.json" $leak $saw $steady <<'PY' >"$work/judged"
import json, sys
w = json.load(open(sys.argv[1])); leak, saw, steady = map(int, sys.argv[2:5])
def out(ok, text): print(0 if ok else 1, text)
for f in w["findings"]: print("-", f["severity"], f["title"])
for p in w["problems"]: print("-", "note", p)
processes = [(c, p) for c in w["cards"] for p in c["processes"]]
growing = [(c, p["trend"]["bytes_per_second"], p["trend"]["confidence"]) for c, p in processes if p["trend"]]
if not processes:  # inside a container: the card's own curve
    growing = [(c, c["growth_bytes_per_second"], 1) for c in w["cards"] if c["growth_bytes_per_second"]]
out(len(growing) == 1, f"the leaking script is caught and nothing else is called growth ({len(growing)} found)")
if growing:
    c, slope, sure = growing[0]
    off = abs(slope * 60 / 2**20 - 200) / 200
    out(off <= 0.15, f"it grows {slope*60/2**20:.1f} MiB/min (confidence {sure:.3f}); 200 were leaked: {100*off:.1f} % off")
    left, truth = c["seconds_to_full"], c["free"] / (200 * 2**20 / 60)
    out(abs(left - truth) / truth <= 0.15, f"time to out of memory {left/3600:.2f} h; by the known leak {truth/3600:.2f} h")
byid = {p["pid"]: p for _, p in processes}
if leak in byid:
    out(byid[leak]["trend"] is not None and byid[saw]["trend"] is None and byid[steady]["trend"] is None, "it is the right process; the healthy sawtooth and the steady process raise nothing")
    out(byid[leak]["command"] == "python leak.py", "processes are named: " + ", ".join(sorted(p["command"] for p in byid.values())))
else:
    out(all(p["hidden"] for p in byid.values()) and (byid or w["problems"]), "PIDs that cannot be seen from here say why")
PY
while read -r code text; do
  case $code in -) say "  $text" ;; *) verdict "$code" "$text" ;; esac
done <"$work/judged"
say ""

say '$ curl http://127.0.0.1:19740/metrics'
curl -s http://127.0.0.1:19740/metrics >"$work/metrics.txt"
grep -E '^plimsoll_(up|gpu_memory_used|gpu_memory_growth|gpu_memory_exhaustion|process_memory_used|process_memory_growth)' "$work/metrics.txt" | sed 's/^/  /' | tee -a "$result"
grep -q '^plimsoll_up 1' "$work/metrics.txt"; verdict $? "the exporter reads the GPUs"
grep -q '^plimsoll_gpu_memory_exhaustion_seconds' "$work/metrics.txt"; verdict $? "the exporter tells the time left"
say ""

say '$ kill the steady script, then plimsoll metrics again'
kill -9 $steady; wait $steady 2>/dev/null
sleep 6
for _ in 1 2 3; do
  curl -s http://127.0.0.1:19740/metrics >"$work/metrics2.txt"
  grep -q '^plimsoll_up 1' "$work/metrics2.txt" && break
  sleep 2
done
before=$(grep -c '^plimsoll_process_memory_used_bytes' "$work/metrics.txt"); now=$(grep -c '^plimsoll_process_memory_used_bytes' "$work/metrics2.txt")
[ "$now" -lt "$before" ] || [ "$before" = 0 ]; verdict $? "the series of the ended process are gone ($before processes, then $now)"
grep '^plimsoll_gpu_memory_orphaned_bytes' "$work/metrics2.txt" | awk '{s+=$2} END {exit s>0}'; verdict $? "it left no orphaned memory behind"
say ""

say '$ plimsoll doctor'
"$plimsoll" doctor | sed 's/^/  /' | tee -a "$result"
"$plimsoll" doctor --json | "$python" -c 'import json,sys; d=json.load(sys.stdin); assert d["schema"]=="plimsoll.doctor/1" and d["machine"]["driver"]; print("  driver", d["machine"]["driver"], "CUDA", d["machine"]["driver_cuda"], "torch", d["machine"]["torch"])' | tee -a "$result"
verdict "${PIPESTATUS[1]}" "doctor knows the driver"
say ""
say '$ plimsoll watch --once'
"$plimsoll" watch --once | sed 's/^/  /' | tee -a "$result"
say ""
if [ "$failures" = 0 ]; then say "everything held"; else say "$failures checks failed"; fi
exit "$([ "$failures" = 0 ] && echo 0 || echo 1)"
