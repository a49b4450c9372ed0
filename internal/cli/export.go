package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/plimsoll/plimsoll/internal/answer/diagnose"
	"github.com/plimsoll/plimsoll/internal/answer/explain"
	"github.com/plimsoll/plimsoll/internal/memory/timeline"
	"github.com/plimsoll/plimsoll/internal/show/traceout"
)

// exportEvidence writes the formats of other tools that were asked for. It reports done when they replace the screen.
func exportEvidence(env Env, o explainOptions, all []explain.Evidence) (done bool, err error) {
	if o.PProf == "" && o.Perfetto == "" && !o.Folded {
		return false, nil
	}
	c := highest(all)
	if c == nil {
		return true, usageError("--pprof, --perfetto and --folded need a memory snapshot, and the input has none")
	}
	if o.Folded {
		if err := traceout.Folded(env.Stdout, c.Timeline); err != nil {
			return true, err
		}
	}
	if err := exportTo(env, o.PProf, c.Timeline, traceout.Profile, "go tool pprof -http=: "+o.PProf); err != nil {
		return true, err
	}
	return true, exportTo(env, o.Perfetto, c.Timeline, traceout.Trace, "open it at ui.perfetto.dev or chrome://tracing")
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

func exportTo(env Env, name string, t *timeline.Timeline, write func(io.Writer, *timeline.Timeline) error, next string) error {
	if name == "" {
		return nil
	}
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("write the export: %w", err)
	}
	if err := write(f, t); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("write the export: %w", err)
	}
	fmt.Fprintf(env.Stderr, "plimsoll: wrote %s (%s)\n", name, next)
	return nil
}
