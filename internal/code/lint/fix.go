package lint

import (
	"sort"

	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// Edit replaces bytes of the source.
type Edit struct {
	Start, End int
	Text       string
}

// Repair is a change of the source that removes a finding.
type Repair struct {
	Title string // what it does, for a menu
	Edits []Edit // in order, not overlapping
	Safe  bool   // the program does what it did; otherwise somebody has to look at it
}

// Fix applies the repairs of the findings to the source, the unsafe ones only where asked for, and counts the findings it fixed. Edits that
// overlap an earlier one are left for the next run; a result with more syntax errors than before is thrown away whole.
func Fix(src []byte, findings []Finding, unsafe bool) ([]byte, int) {
	var edits []Edit
	fixed := 0
	for _, f := range findings {
		if f.Repair == nil || !f.Repair.Safe && !unsafe || overlaps(edits, f.Repair.Edits) {
			continue
		}
		edits = append(edits, f.Repair.Edits...)
		fixed++
	}
	if fixed == 0 {
		return src, 0
	}
	out := apply(src, edits)
	if len(pysource.Parse(out).Errors) > len(pysource.Parse(src).Errors) {
		return src, 0
	}
	return out, fixed
}

func apply(src []byte, edits []Edit) []byte {
	sort.SliceStable(edits, func(i, j int) bool { return edits[i].Start < edits[j].Start })
	var out []byte
	at := 0
	for _, e := range edits {
		out = append(append(out, src[at:e.Start]...), e.Text...)
		at = e.End
	}
	return append(out, src[at:]...)
}

func overlaps(taken, edits []Edit) bool {
	for _, a := range taken {
		for _, b := range edits {
			if a.Start < b.End && b.Start < a.End || a.Start == b.Start {
				return true
			}
		}
	}
	return false
}
