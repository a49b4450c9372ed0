package lint

import (
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/flow"
)

// caller is one place that calls a function of the project.
type caller struct {
	in     string // the function it stands in; empty: a file's own body
	grad   flow.Grad
	trains bool // its file runs a backward
}

// calling is who calls what in a project.
type calling struct {
	callers map[string][]caller
	bases   map[string][]string // of a class, "Sub@a.py", those of the project that it derives from
}

func newCalling(reports []*Report) *calling {
	g := &calling{map[string][]caller{}, map[string][]string{}}
	for _, r := range reports {
		if r == nil {
			continue
		}
		for _, u := range r.Uses {
			if u.Grad == flow.Inherits {
				g.bases[u.Target] = append(g.bases[u.Target], u.In)
			} else {
				g.callers[u.Target] = append(g.callers[u.Target], caller{u.In, u.Grad, r.Traits&Trains != 0})
			}
		}
	}
	return g
}

// of lists the places that call a function: by what it is; a method also where it is called on a class that its own derives from; and where nobody is
// known to do either, wherever a method of its name is called on something unknown.
func (g *calling) of(id string) []caller {
	out := g.callers[id]
	if class, method, ok := classOf(id); ok {
		for _, base := range g.above(class) {
			name, path, _ := strings.Cut(base, "@")
			if more := g.callers[name+"."+method+"@"+path]; len(more) > 0 {
				out = append(out[:len(out):len(out)], more...)
			}
		}
	}
	if len(out) == 0 {
		return g.callers[byName(id)]
	}
	return out
}

// maxAbove bounds how many classes above one are looked at.
const maxAbove = 16

// above lists the classes that one derives from, itself aside.
func (g *calling) above(class string) []string {
	var out []string
	seen := map[string]bool{class: true}
	for queue := g.bases[class]; len(queue) > 0 && len(out) < maxAbove; queue = queue[1:] {
		if base := queue[0]; !seen[base] {
			seen[base] = true
			out = append(out, base)
			queue = append(queue[:len(queue):len(queue)], g.bases[base]...)
		}
	}
	return out
}

// classOf takes the ID of a method apart: "Sub@a.py" and "step" of "Sub.step@a.py".
func classOf(id string) (class, method string, ok bool) {
	name, path, _ := strings.Cut(id, "@")
	class, method, ok = strings.Cut(name, ".")
	return class + "@" + path, method, ok && class != ""
}

// comes goes up from a function to those that call it, and to those that call them, and tells whether one of the calls answers yes; a call that leads no
// further says so.
func (g *calling) comes(id string, seen map[string]bool, yes, further func(caller) bool) bool {
	if seen[id] {
		return false
	}
	seen[id] = true
	for _, c := range g.of(id) {
		if yes(c) || further(c) && c.in != "" && g.comes(c.in, seen, yes, further) {
			return true
		}
	}
	return false
}

// recorded tells whether a function may run while autograd is on: nobody is known to call it, or a chain of calls leads to it from where everything starts
// and none of them stands where autograd is off.
func (g *calling) recorded(id string) bool {
	if len(g.of(id)) == 0 {
		return true
	}
	on := func(c caller) bool { return c.grad == flow.Recording }
	return g.comes(id, map[string]bool{}, func(c caller) bool { return on(c) && (c.in == "" || len(g.of(c.in)) == 0) }, on)
}

// muted tells whether some chain of calls that leads to a function stands where autograd is off, or may be.
func (g *calling) muted(id string) bool {
	return g.comes(id, map[string]bool{}, func(c caller) bool { return c.grad != flow.Recording }, func(caller) bool { return true })
}

// called tells whether anybody is known to call a function.
func (g *calling) called(id string) bool { return len(g.of(id)) > 0 }

// trained tells whether a file that trains calls a function, itself or through others.
func (g *calling) trained(id string) bool {
	return g.comes(id, map[string]bool{}, func(c caller) bool { return c.trains }, func(caller) bool { return true })
}

// byName is how a method is called on something whose class is not known.
func byName(id string) string {
	name, _, _ := strings.Cut(id, "@")
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return ""
	}
	return name[i:]
}
