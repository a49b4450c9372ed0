package lint

import (
	"sort"

	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// Fix applies the edits of the findings to the source and counts the findings it fixed. Edits that overlap an earlier one are
// left for the next run; a result with more syntax errors than before is thrown away whole.
func Fix(src []byte, findings []Finding) ([]byte, int) {
	var edits []Edit
	fixed := 0
	for _, f := range findings {
		if len(f.Edits) == 0 || overlaps(edits, f.Edits) {
			continue
		}
		edits = append(edits, f.Edits...)
		fixed++
	}
	if fixed == 0 {
		return src, 0
	}
	sort.Slice(edits, func(i, j int) bool { return edits[i].Start < edits[j].Start })
	var out []byte
	at := 0
	for _, e := range edits {
		out = append(append(out, src[at:e.Start]...), e.Text...)
		at = e.End
	}
	out = append(out, src[at:]...)
	if len(pysource.Parse(out).Errors) > len(pysource.Parse(src).Errors) {
		return src, 0
	}
	return out, fixed
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
