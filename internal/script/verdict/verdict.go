// Package verdict says what a command that ran under observation did to memory, and whether memory ended it.
//
// In go how the command ended and what its processes noted; out comes a Verdict: one of a few kinds, and the lines that tell it. Nothing is
// claimed that was not seen.
package verdict

import (
	"fmt"
	"strings"

	"github.com/plimsoll/plimsoll/internal/evidence/probenotes"
)

// Ending is how a command ended.
type Ending struct {
	Code        int  // its exit code
	Killed      bool // by SIGKILL, itself or a part of it
	KernelKills int  // processes the kernel killed for want of host memory meanwhile
}

// Evidence is everything that is known about a run that is over.
type Evidence struct {
	Program string // what was started
	Ending  Ending
	Notes   []probenotes.Process
}

// Kind is what memory had to do with the end of a run.
type Kind int

// Kinds.
const (
	Finished    Kind = iota // it ended well
	OutOfMemory             // GPU memory ended it
	HostMemory              // the kernel ended it for want of host memory
	Killed                  // someone killed it
	Failed                  // it failed for another reason
)

// Verdict is what to say of a run.
type Verdict struct {
	Kind  Kind
	Dead  []probenotes.Process // the processes that GPU memory ended
	Lines []string             // what to say, whole sentences
}

// Of judges a run.
func Of(e Evidence) Verdict {
	dead := probenotes.Died(e.Notes)
	switch end := e.Ending; {
	case end.Code == 0: // it survived its failures
		return Verdict{Kind: Finished, Lines: probenotes.Healthy(e.Notes)}
	case len(dead) > 0:
		v := Verdict{Kind: OutOfMemory, Dead: dead}
		if who := probenotes.WhoDied(dead, e.Notes); who != "" {
			v.Lines = []string{who}
		}
		return v
	case end.Killed && end.KernelKills > 0:
		return Verdict{Kind: HostMemory, Lines: []string{e.withPeak("the kernel killed it: host memory ran out, not the GPU's (fewer DataLoader workers, smaller host caches).")}}
	case end.Killed:
		return Verdict{Kind: Killed, Lines: []string{e.withPeak("the command was killed (SIGKILL) from outside; its GPU memory did not do it.")}}
	default:
		return Verdict{Kind: Failed, Lines: []string{e.withPeak(fmt.Sprintf("%s ended with code %d, not for want of memory.", e.Program, end.Code))}}
	}
}

// withPeak adds how full the card got, where that is known.
func (e Evidence) withPeak(line string) string {
	if peak, ok := probenotes.PeakLine(e.Notes); ok {
		return line + " " + strings.ToUpper(peak[:1]) + peak[1:]
	}
	return line
}
