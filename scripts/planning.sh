#!/usr/bin/env bash
# Shows how good plimsoll fit's plans are: for eight models and five memory limits the first plan beside the best measured one, and how well
# predicted times keep the measured order. Measured on one H200, PyTorch 2.11 (internal/answer/plan/testdata).
set -euo pipefail
cd "$(dirname "$0")/.."
echo "First plan of each case, restricted to the measured grid, against the best measured plan that fits:"
PLIMSOLL_SHOW=1 go test -count=1 -run 'TheFirstPlan|KeepTheMeasuredOrder' -v ./internal/answer/plan | grep -E '^  |^---|^ok|^FAIL|planning_test' | sort
echo "A full search over more than 10,000 configurations of an 8B model, and searches in which little fits:"
go test -count=1 -run '^$' -bench 'FullSearch|HardSearches' -benchtime 3x ./internal/answer/plan | grep -E '^Benchmark'
