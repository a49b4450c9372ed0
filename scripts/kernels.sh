#!/usr/bin/env bash
# Compares what single kernels take, as computed here, with the rows that Liger publishes of its benchmarks: the table of docs/measurements/kernels.md. Needs ../shared.
set -euo pipefail
cd "$(dirname "$0")/.."
PLIMSOLL_KERNELS=${KERNEL_ROWS:-$PWD/../shared/groundtruth/public/liger-kernel-memory.csv} go test -count=1 -run '^TestKernelsAgreeWithPublishedRows$' -v ./internal/model/eager | sed -nE 's/^ +kernels_test.go:[0-9]+: //p'
