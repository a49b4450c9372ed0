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
// error, since memory really ran out there. Stacks name files by the path of another machine: a frame belongs to the file of
// the same name whose folders agree furthest. Frames of installed packages belong to none.
func Raise(findings []Finding, stack []Frame) []Finding {
	type ranked struct {
		Finding
		depth int
	}
	owner := owners(findings, stack)
	var on []ranked
	for _, f := range findings {
		for depth, frame := range stack {
			if owner[frame.File] == f.File && frame.Line >= f.First-reach && frame.Line <= f.Last+reach {
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

// owners maps each file a stack names to the file of the findings that it is.
func owners(findings []Finding, stack []Frame) map[string]string {
	owner := map[string]string{}
	for _, frame := range stack {
		if installed(frame.File) {
			continue
		}
		best := 0
		for _, f := range findings {
			if n := agreement(f.File, frame.File); n > best {
				best, owner[frame.File] = n, f.File
			}
		}
	}
	return owner
}

func installed(path string) bool {
	return strings.Contains(path, "site-packages") || strings.Contains(path, "dist-packages") || strings.Contains(path, "/torch/nn/")
}

// agreement counts the last parts that two paths share.
func agreement(a, b string) int {
	as, bs := strings.Split(filepath.ToSlash(a), "/"), strings.Split(filepath.ToSlash(b), "/")
	n := 0
	for n < len(as) && n < len(bs) && as[len(as)-1-n] == bs[len(bs)-1-n] {
		n++
	}
	return n
}
