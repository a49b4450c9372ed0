#!/usr/bin/env bash
# Reads the measured architectures that are not built in from the code of transformers again, into the testdata that the accuracy test compares with
# measurements. Takes about ten minutes of CPU. Arguments: ids of rows, or nothing for those that are missing or were read by another probe; ARCHITECTURES_SECONDS
# ends it after so long, and the next run goes on.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(scripts/python-env.sh)
PYTHONPATH=internal/script/probe/python CUDA_VISIBLE_DEVICES= HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 "$python" -W ignore scripts/models/architectures.py internal/answer/predict/testdata "$@"
