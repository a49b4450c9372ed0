package lint

import (
	"path/filepath"
	"sort"
	"strings"
)

// Frame is one line of a stack that led to an allocation or to an error.
type Frame struct {
	File string
	Line int
}

// reach is how far from a guilty line a finding may stand and still explain it: a call spread over several lines has its
// frame on one of them.
const reach = 2

// Raise gives the findings that stand on the stack, the closest to its top first; a note becomes a warning and a warning an
// error, since memory really ran out there. Files are compared by their ends, as stacks name them by the path of another machine.
func Raise(findings []Finding, stack []Frame) []Finding {
	type ranked struct {
		Finding
		depth int
	}
	var on []ranked
	for _, f := range findings {
		for depth, frame := range stack {
			if sameFile(f.File, frame.File) && frame.Line >= f.Line-reach && frame.Line <= f.EndLine+reach {
				f.Severity = min(f.Severity+1, Error)
				on = append(on, ranked{f, depth})
				break
			}
		}
	}
	sort.SliceStable(on, func(i, j int) bool { return on[i].depth < on[j].depth })
	out := make([]Finding, len(on))
	for i, r := range on {
		out[i] = r.Finding
	}
	return out
}

// sameFile compares the last two parts of two paths, or as many as both have.
func sameFile(a, b string) bool {
	as, bs := strings.Split(filepath.ToSlash(a), "/"), strings.Split(filepath.ToSlash(b), "/")
	for i := range 2 {
		x, y := len(as)-1-i, len(bs)-1-i
		if x < 0 || y < 0 || as[x] == "." || bs[y] == "." {
			return i > 0
		}
		if as[x] != bs[y] {
			return false
		}
	}
	return true
}
