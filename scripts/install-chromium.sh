#!/usr/bin/env bash
# Installs Debian's chromium for the browser tests, where it is not there yet. Needs root and a Debian or Ubuntu.
set -euo pipefail
for name in chromium chromium-browser google-chrome; do
	if command -v "$name" >/dev/null; then exit 0; fi
done
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null
