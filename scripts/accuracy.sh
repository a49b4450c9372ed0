#!/usr/bin/env bash
# Prints how far predictions are from measurements, by model: 246 training jobs on one H200, PyTorch 2.11.
set -euo pipefail
cd "$(dirname "$0")/.."
go test -count=1 -run '^TestAccuracy$' -v ./internal/answer/predict | sed -nE 's/^ +accuracy_test.go:[0-9]+: //p'
