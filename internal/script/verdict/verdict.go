// Package verdict says what a command that ran under observation did to memory, and whether memory ended it.
//
// It takes how the command ended, what its processes noted, what the driver said of its cards and the memory errors it printed and returns a
// Verdict: one of a few kinds, and the lines that tell it. Nothing is claimed that was not seen: a process that ignored the probe is named with
// what the driver saw of it, and a failure without evidence is said to have none.
package verdict

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/evidence/oomtext"
	"github.com/plimsoll/plimsoll/internal/evidence/probenotes"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Ending is how a command ended.
type Ending struct {
	Code        int  // its exit code
	Killed      bool // by SIGKILL, itself or a part of it
	KernelKills int  // processes the kernel killed meanwhile because host memory ran out
}

// Evidence is everything that is known about a run that is over.
type Evidence struct {
	Program string // what was started
	Ending  Ending
	Notes   []probenotes.Process
	Driver  Driver
	Printed oomtext.Log // memory errors on stderr
	Heard   bool        // stderr was read along
}

// Kind is what memory had to do with the end of a run.
type Kind string

// Kinds.
const (
	Finished    Kind = "finished"      // it ended well
	OutOfMemory Kind = "out-of-memory" // GPU memory ended it
	HostMemory  Kind = "host-memory"   // host memory ended it
	Killed      Kind = "killed"        // it was killed, why is not known
	Failed      Kind = "failed"        // it failed, and no memory error was seen
)

// Verdict is what to say of a run.
type Verdict struct {
	Kind       Kind
	Dead       []probenotes.Process // the processes that GPU memory ended
	Printed    bool                 // the errors printed say why
	Unobserved []Held               // the command's processes on the cards that the probe was not in
	Lines      []string             // what to say, whole sentences
}

// Of judges a run.
func Of(e Evidence) Verdict {
	v := e.judge()
	v.Unobserved = e.unobserved()
	if v.Kind != OutOfMemory || len(v.Dead) == 0 {
		v.Lines = append(v.Lines, notObserved(v.Unobserved)...)
	}
	if line := e.blind(); line != "" && len(v.Unobserved) == 0 {
		v.Lines = append(v.Lines, line)
	}
	return v
}

func (e Evidence) judge() Verdict {
	dead := probenotes.Died(e.Notes)
	end := e.Ending
	switch printed := e.printed(); {
	case end.Code == 0: // it survived its failures
		return Verdict{Kind: Finished, Lines: e.healthy()}
	case len(dead) > 0:
		v := Verdict{Kind: OutOfMemory, Dead: dead}
		if who := probenotes.WhoDied(dead, e.Notes); who != "" {
			v.Lines = []string{who}
		}
		return v
	case printed != "":
		return Verdict{Kind: printed, Printed: true, Lines: []string{fmt.Sprintf("%s ended with code %d after it printed a memory error.", e.Program, end.Code)}}
	case end.Killed && end.KernelKills > 0:
		return Verdict{Kind: HostMemory, Lines: []string{e.withPeak(
			"the command or one of its processes was killed, and the kernel's out-of-memory killer was active at that time: host memory ran out, not the GPU's (fewer DataLoader workers, smaller host caches).")}}
	case end.Killed:
		return Verdict{Kind: Killed, Lines: []string{e.withPeak("the command or one of its processes was killed (SIGKILL); by whom is not known. No memory error was seen.")}}
	default:
		return Verdict{Kind: Failed, Lines: []string{e.withPeak(e.failure())}}
	}
}

// printed is what the errors on stderr say ended the run; empty where they say nothing about memory, or where a process noted that something else ended it.
func (e Evidence) printed() Kind {
	if slices.ContainsFunc(e.Notes, func(p probenotes.Process) bool { return p.Error != nil && !p.Error.OutOfMemory }) {
		return ""
	}
	kind := Kind("")
	for _, m := range e.Printed.Messages {
		switch m.Kind {
		case oomtext.DeviceOOM, oomtext.LibraryOOM, oomtext.GaveUp, oomtext.Refused:
			return OutOfMemory
		case oomtext.HostOOM, oomtext.SharedOOM:
			if m.Certain {
				kind = HostMemory
			}
		}
	}
	return kind
}

func (e Evidence) failure() string {
	for _, p := range e.Notes {
		if p.Error != nil && p.Error.Type != "" {
			return fmt.Sprintf("%s ended with code %d: %s, not a memory error.", e.Program, e.Ending.Code, p.Error.Type)
		}
	}
	if !e.Heard {
		return fmt.Sprintf("%s ended with code %d; no memory error was observed, and its own output was not read.", e.Program, e.Ending.Code)
	}
	return fmt.Sprintf("%s ended with code %d; no memory error was seen.", e.Program, e.Ending.Code)
}

func (e Evidence) healthy() []string {
	if lines := probenotes.Healthy(e.Notes); len(lines) > 0 {
		return lines
	}
	if len(e.Driver.Processes) > 0 || e.blind() != "" {
		return nil // that is said of them
	}
	if e.Driver.Asked {
		return []string{"no GPU memory was seen in use, neither by the probe nor by the driver."}
	}
	return []string{"no GPU memory was seen in use."}
}

// withPeak adds how full the card got, where that is known.
func (e Evidence) withPeak(line string) string {
	if peak, ok := probenotes.PeakLine(e.Notes); ok {
		return line + " " + strings.ToUpper(peak[:1]) + peak[1:]
	}
	return line
}

// fewNamed is how many unobserved processes are named one by one.
const fewNamed = 4

func notObserved(all []Held) []string {
	var lines []string
	for _, h := range all[:min(len(all), fewNamed)] {
		saw := "the driver saw it on GPU " + fmt.Sprint(h.Card)
		if h.Known {
			saw = fmt.Sprintf("the driver saw %s on GPU %d", h.Bytes.Short(), h.Card)
		}
		who := fmt.Sprintf("process %d", h.PID)
		if h.Command != "" {
			who = fmt.Sprintf("%s (process %d)", h.Command, h.PID)
		}
		why := ""
		if h.Why != Unknown {
			why = "; " + string(h.Why)
		}
		lines = append(lines, fmt.Sprintf("not observed: %s: %s%s.", who, saw, why))
	}
	if more := len(all) - fewNamed; more > 0 {
		lines = append(lines, fmt.Sprintf("not observed: %d more processes.", more))
	}
	return lines
}

// least is the rise of a card's memory that is worth a word: CUDA's smallest contexts take about as much.
const least = 256 * units.MiB

// blind says what the driver saw where it does not tell whose it was; empty where it does, or saw nothing.
func (e Evidence) blind() string {
	if !e.Driver.Blind || e.Driver.Risen < least || slices.ContainsFunc(e.Notes, func(p probenotes.Process) bool { return p.Device != nil }) {
		return ""
	}
	return fmt.Sprintf("not observed: the driver saw the memory used on GPU %d rise by %s while it ran, and does not say which process used it.", e.Driver.RisenOn, e.Driver.Risen.Short())
}
