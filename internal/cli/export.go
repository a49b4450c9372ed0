package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/diagnose"
	"github.com/plimsoll/plimsoll/internal/answer/explain"
	"github.com/plimsoll/plimsoll/internal/memory/timeline"
	"github.com/plimsoll/plimsoll/internal/show/traceout"
	"github.com/spf13/pflag"
)

// export is a format of another tool and whether it was asked for.
type export struct {
	traceout.Format
	file  *string // nil for formats that are printed
	print *bool
}

// exportFlags adds a flag for every format.
func exportFlags(flags *pflag.FlagSet) []export {
	var out []export
	for _, f := range traceout.Formats {
		e := export{Format: f}
		if f.Open == "" {
			e.print = flags.Bool(f.Flag, false, f.Help)
		} else {
			e.file = flags.String(f.Flag, "", f.Help)
		}
		out = append(out, e)
	}
	return out
}

func (e export) wanted() bool { return e.file != nil && *e.file != "" || e.print != nil && *e.print }

// exportEvidence writes the formats of other tools that were asked for. It reports done when they replace the screen.
func exportEvidence(env Env, exports []export, all []explain.Evidence) (done bool, err error) {
	for _, e := range exports {
		if !e.wanted() {
			continue
		}
		c := highest(all)
		if c == nil {
			return true, usageError("--%s needs a memory snapshot, and the input has none", e.Flag)
		}
		if e.print != nil {
			err = e.Write(env.Stdout, c.Timeline)
		} else {
			err = exportTo(env, e, c.Timeline)
		}
		if err != nil {
			return true, err
		}
		done = true
	}
	return done, nil
}

// highest picks the device with the highest peak: an export shows one.
func highest(all []explain.Evidence) *diagnose.Case {
	var best *diagnose.Case
	for _, e := range all {
		if e.Snapshot == nil {
			continue
		}
		for _, c := range explain.Cases(e) {
			if best == nil || c.Peak.Requested > best.Peak.Requested {
				best = c
			}
		}
	}
	return best
}

func exportTo(env Env, e export, t *timeline.Timeline) error {
	f, err := os.Create(*e.file)
	if err != nil {
		return fmt.Errorf("write the export: %w", err)
	}
	if err := e.Write(f, t); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("write the export: %w", err)
	}
	fmt.Fprintf(env.Stderr, "plimsoll: wrote %s (%s)\n", *e.file, strings.ReplaceAll(e.Open, "%s", *e.file))
	return nil
}
