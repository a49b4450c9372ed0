#!/usr/bin/env bash
# The tests that need PyTorch, on the CPU: the probe, captures, runs, written plans. The first run downloads PyTorch (3 GB) into a cache outside the clone.
# Other tests of the same packages were run by make test and are run again where they take seconds; the long ones are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
export PLIMSOLL_PYTHON=${PLIMSOLL_PYTHON:-$(scripts/python-env.sh)}
export PLIMSOLL_HANDOVER=${PLIMSOLL_HANDOVER:-$(scripts/handover-env.sh)}
export PLIMSOLL_INTEGRATIONS=${PLIMSOLL_INTEGRATIONS:-$(scripts/integrations-env.sh)}
packages=$(go list -f '{{.ImportPath}} {{join .TestImports " "}} {{join .XTestImports " "}}' ./... | grep probetest | cut -d' ' -f1)
long='HostileInputs|SessionsInTheDocsAreReal|NextStepsWorkAsPrinted|DiffTellsWhichHolderGrew|SixtyColumnsAreEnough|FitAnswersWhatPeopleAsked|APageStacksByHolderAndModule|WhatNewUsersTypeIsUnderstood|HoldersAreExported|TheAdmissionExampleRefusesWhatDoesNotFit'
go test -count=1 -timeout 40m -skip "^Test($long)\$" $packages
