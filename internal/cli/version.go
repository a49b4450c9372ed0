package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// What a release is built from, set by the linker. A build from a clone takes commit and date from Go's own record.
var (
	Version   = "dev"
	Commit    = ""
	BuildDate = "" // of the commit, as 2026-11-15T12:00:00Z: the same commit gives the same bytes
)

// versionSchema names the JSON of plimsoll version.
const versionSchema = "plimsoll.version/1"

// build is what this binary was made from.
type build struct {
	Schema   string `json:"schema"`
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Date     string `json:"date,omitempty"`
	Modified bool   `json:"modified,omitempty"` // the clone had changes that were not committed
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func buildHere() build {
	b := build{Schema: versionSchema, Version: Version, Commit: Commit, Date: BuildDate, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok || Commit != "" {
		return b
	}
	if b.Version == "dev" && info.Main.Version != "" && info.Main.Version != "(devel)" {
		b.Version = info.Main.Version // go install github.com/plimsoll/plimsoll/cmd/plimsoll@v1.2.3
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Date = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func newVersionCommand(env Env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version [--json]",
		Short: "print the version, the commit and its date",
		Long: `Version prints what this binary was built from. Add it to a bug report.

The date is the date of the commit: two builds of one commit are the same file.`,
		Example: `  plimsoll version
  plimsoll version --json | jq -r .commit`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return printJSON(env.Stdout, buildHere())
			}
			return printVersion(env.Stdout, buildHere())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON ("+versionSchema+")")
	return cmd
}

func printVersion(w io.Writer, b build) error {
	commit := b.Commit
	if commit == "" {
		commit = "unknown"
	}
	if b.Modified {
		commit += " with local changes"
	}
	date := b.Date
	if date == "" {
		date = "unknown"
	}
	_, err := fmt.Fprintf(w, "plimsoll %s\ncommit    %s\ndate      %s\nbuilt by  %s for %s\n", b.Version, commit, date, b.Go, b.Platform)
	return err
}
