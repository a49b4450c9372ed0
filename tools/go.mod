module github.com/plimsoll/plimsoll/tools

go 1.26.0

require github.com/evanw/esbuild v0.28.2

require (
	golang.org/x/mod v0.37.0 // indirect
	golang.org/x/sync v0.21.0 // indirect
	golang.org/x/sys v0.46.0 // indirect
	golang.org/x/telemetry v0.0.0-20260625142307-59b4966ccb57 // indirect
	golang.org/x/tools v0.47.0 // indirect
	golang.org/x/vuln v1.5.0 // indirect
)

tool golang.org/x/vuln/cmd/govulncheck
