package lint

import (
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/flow"
)

// Quiet names the functions of a project that only run while autograd is off: every call known stands there, or in such a
// function. What they would record is not recorded, so findings within them are dropped (Options.Quiet).
func Quiet(reports []*Report) map[string]bool {
	callers := map[string][]flow.Use{}
	wanted := map[string]bool{}
	for _, r := range reports {
		if r == nil {
			continue
		}
		for _, u := range r.Uses {
			callers[u.Target] = append(callers[u.Target], u)
		}
		for _, f := range r.Findings {
			if f.Within != "" {
				wanted[f.Within] = true
			}
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	quiet := map[string]bool{}
	for changed := true; changed; {
		changed = false
		for target := range callers {
			if !quiet[target] && onlyQuiet(callers[target], quiet) {
				quiet[target], changed = true, true
			}
		}
	}
	for id := range wanted {
		if len(callers[id]) == 0 && quiet[byName(id)] {
			quiet[id] = true
		}
	}
	return quiet
}

func onlyQuiet(uses []flow.Use, quiet map[string]bool) bool {
	for _, u := range uses {
		if u.Grad == flow.Recording && !quiet[u.In] && !quiet[byName(u.In)] {
			return false
		}
	}
	return len(uses) > 0
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
