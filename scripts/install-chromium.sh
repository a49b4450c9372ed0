#!/usr/bin/env bash
# Installs a Chromium for the browser tests, where there is none yet: Debian's headless shell, or the whole browser where Debian has no such package.
# Needs root and a Debian or Ubuntu.
set -euo pipefail
for name in chromium-headless-shell chromium chromium-browser google-chrome; do
	if command -v "$name" >/dev/null; then exit 0; fi
done
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends chromium-headless-shell fonts-dejavu-core >/dev/null ||
	apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null
