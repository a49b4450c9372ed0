package pysource

import "sort"

// Edit replaces the bytes from Start to End of a source.
type Edit struct {
	Start, End int
	Text       string
}

// Apply makes edits that do not overlap; where two insert at one place, their order is kept.
func Apply(src []byte, edits []Edit) []byte {
	edits = append([]Edit(nil), edits...)
	sort.SliceStable(edits, func(i, j int) bool { return edits[i].Start < edits[j].Start })
	var out []byte
	at := 0
	for _, e := range edits {
		out = append(append(out, src[at:e.Start]...), e.Text...)
		at = e.End
	}
	return append(out, src[at:]...)
}
