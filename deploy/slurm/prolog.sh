#!/bin/bash
# Prolog of a GPU node (slurm.conf: Prolog=/etc/slurm/prolog.d/plimsoll.sh): a node whose driver is broken, or whose GPUs hold memory that belongs to no process,
# takes no job. A prolog that fails drains the node; what plimsoll found goes into slurmd's log.
plimsoll=${PLIMSOLL:-/usr/local/bin/plimsoll}
[ -x "$plimsoll" ] || exit 0
found=$(timeout 20 "$plimsoll" doctor --json)
code=$?
case $found in
  *'"orphan-memory"'*) code=3 ;;
esac
[ "$code" = 3 ] || exit 0 # 3: a finding of severity error; a doctor that cannot answer is no reason to drain
echo "$found" >&2
exit 1
