#!/usr/bin/env bash
# Refuses dependencies of the binary whose licence is not a permissive one. Works from the module cache.
set -euo pipefail
cd "$(dirname "$0")/.."
go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Dir}}{{end}}{{end}}' ./cmd/plimsoll | sort -u | while read -r module folder; do
	text=$(cat "$folder"/LICENSE* "$folder"/LICENCE* "$folder"/COPYING* 2>/dev/null || true)
	case "$text" in
	*"Apache License"* | *"Permission is hereby granted, free of charge"* | *"Redistribution and use in source and binary forms"* | *"Permission to use, copy, modify, and"* | *"Mozilla Public License"*) ;;
	*) echo "licence of $module ($folder) is not known to be permissive" >&2; exit 1 ;;
	esac
done
