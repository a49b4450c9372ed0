// Package probe carries the Python half of plimsoll and puts it in front of a command.
//
// It takes a folder to write into, the environment a command would have had and what the probe shall do and returns the
// environment that makes every Python process of that command load the probe, which stays inert until torch is imported.
// Nothing outside the given folder is written and no installed package is touched. Pythons started with -I, -E or -S ignore
// PYTHONPATH and run unobserved. A PYTHONPATH that is replaced on the way is put right where that can be done without changing what a
// script sees of its programs: by env(1) on the command line (Args), in processes started by an observed Python (_children.py), and for a
// shell script that sets it and calls python by name (Shims).
package probe

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

//go:embed python/sitecustomize.py python/plimsoll/*.py
var sources embed.FS

// Files are the Python sources: sitecustomize.py and the package plimsoll.
func Files() fs.FS {
	sub, err := fs.Sub(sources, "python")
	if err != nil {
		panic(err) // the embedded tree is part of this file
	}
	return sub
}

// Mode is what the probe does in a process.
type Mode string

// Modes.
const (
	Observe Mode = "observe" // record memory, steps and failures
	Capture Mode = "capture" // stop at the first training step and write it down
	Trace   Mode = "trace"   // follow the whole script on tensors without data
)

// Record is which allocations carry Python stacks.
type Record string

// Ways to record.
const (
	Auto   Record = "auto"   // in as many steps as stay below a share of the step time
	Stacks Record = "stacks" // in all
	Light  Record = "light"  // in none
	Off    Record = "off"    // no history at all
)

// Records lists the ways to record.
func Records() []Record { return []Record{Auto, Stacks, Light, Off} }

// Settings tell the probe what to do. They travel as PLIMSOLL_* variables.
type Settings struct {
	Mode   Mode
	Report string // folder for notes and snapshots; exists and is absolute
	Record Record // empty is Auto
	Fit    string // plan of a fitting run as JSON; empty: change nothing
	Keep   string // KeepPeak: keep a recording and the holders of the peak of a run that lives; empty: of failures only
	Run    string // which run this is, so that its notes and processes are told from those of others
	Card   string // of a capture: the card the script is to believe in, as JSON; empty: a plausible one

	Whole   bool    // of a capture: the script's loader is followed to the end of its run
	Epochs  int     // of a whole run: passes over the data; 0: as many as the script says
	Seconds float64 // of a trace: how long the script is followed; 0: as long as the probe thinks right

	Since time.Time // of a trace: when the script was run before, for its capture: folders it has made since are no surprise; zero: it was not
}

// KeepPeak is the value of Settings.Keep that keeps the peak of a run.
const KeepPeak = "peak"

// Mark is the variable that every process of a run carries, with Settings.Run as its value.
const Mark = "PLIMSOLL_RUN"

// Install writes the probe's sources under dir.
func Install(dir string) error {
	return fs.WalkDir(Files(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(path))
		if d.IsDir() {
			return os.MkdirAll(to, 0o700)
		}
		data, err := fs.ReadFile(Files(), path)
		if err != nil {
			return fmt.Errorf("read probe source %s: %w", path, err)
		}
		return os.WriteFile(to, data, 0o600)
	})
}

// Environ gives the environment for a command observed by the probe installed in dir. The entries of base stay;
// PYTHONPATH keeps its value behind the probe's folder.
func Environ(base []string, dir string, s Settings) []string {
	set := map[string]string{
		"PLIMSOLL_MODE": string(s.Mode), "PLIMSOLL_REPORT": s.Report, "PLIMSOLL_RECORD": string(s.Record), "PLIMSOLL_FIT": s.Fit,
		"PLIMSOLL_CARD": s.Card, "PLIMSOLL_KEEP": s.Keep, Mark: s.Run,
	}
	if s.Whole {
		set["PLIMSOLL_WHOLE"] = strconv.Itoa(s.Epochs)
	}
	if s.Seconds > 0 {
		set["PLIMSOLL_SECONDS"] = strconv.FormatFloat(s.Seconds, 'f', -1, 64)
	}
	if !s.Since.IsZero() {
		set["PLIMSOLL_SINCE"] = strconv.FormatInt(s.Since.Unix(), 10)
	}
	path := dir
	var env []string
	for _, entry := range base {
		name, value, _ := strings.Cut(entry, "=")
		if name == "PYTHONPATH" && value != "" {
			path += string(os.PathListSeparator) + value
		}
		if _, ours := set[name]; ours || name == "PYTHONPATH" {
			continue
		}
		env = append(env, entry)
	}
	env = append(env, "PYTHONPATH="+path)
	for _, name := range []string{"PLIMSOLL_MODE", "PLIMSOLL_REPORT", "PLIMSOLL_RECORD", "PLIMSOLL_FIT", "PLIMSOLL_CARD", "PLIMSOLL_KEEP", "PLIMSOLL_SECONDS", "PLIMSOLL_SINCE", "PLIMSOLL_WHOLE", Mark} {
		if set[name] != "" {
			env = append(env, name+"="+set[name])
		}
	}
	return env
}
