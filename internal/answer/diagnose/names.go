package diagnose

import (
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/evidence/holders"
)

// running lists the user's frames at the failure as the probe saw them, innermost first; nil where it did not look then.
func (c *Case) running() []holders.Place {
	if c.Holders == nil || c.Holders.File.When != holders.AtOOM {
		return nil
	}
	return c.Holders.File.Running
}

// runsEval tells by the functions that run whether the program evaluates, and whether it generates.
func (c *Case) runsEval() (eval, generates bool) {
	for _, p := range c.running() {
		if !callsite.IsUserFile(p.File) {
			continue
		}
		eval = eval || callsite.NamesEval(p.Function)
		generates = generates || namesGeneration(p.Function)
	}
	return eval, generates
}

// runningPlaces are the user's lines at the failure.
func (c *Case) runningPlaces() []report.Place {
	var out []report.Place
	for _, p := range c.running() {
		if callsite.IsUserFile(p.File) && p.Line > 0 {
			out = append(out, report.Place{File: p.File, Line: p.Line, Function: p.Function})
		}
	}
	return out
}

// namesGeneration hears the production of a sequence in a function's name.
func namesGeneration(function string) bool {
	name := strings.ToLower(function)
	return slices.ContainsFunc(generating, func(w string) bool { return strings.Contains(name, w) })
}
