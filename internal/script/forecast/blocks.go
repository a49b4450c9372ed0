package forecast

import (
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/model/exported"
)

// sequential is the class of lists that are called themselves; a ModuleList never is.
const sequential = "torch.nn.modules.container.Sequential"

// Blocks are the repeated blocks of a model as the probe finds them (_checkpoint.py): members of a list, two or more of one class, that hold modules
// themselves and no batch norm; the outermost ones.
func Blocks(g *exported.Graph) []string {
	type list struct{ holder, class string }
	called, spared := map[string]string{}, map[string]bool{}
	for _, stack := range g.Stacks {
		for level, m := range stack {
			called[m.Path] = m.Class
			if strings.Contains(strings.ToLower(m.Class), "batchnorm") {
				for _, outer := range stack[:level] {
					spared[outer.Path] = true
				}
			}
		}
	}
	members := map[list][]string{}
	var order []list
	for _, stack := range g.Stacks {
		for _, m := range stack[:max(len(stack)-1, 0)] { // the last calls operators, no modules
			holder := m.Path[:max(strings.LastIndexByte(m.Path, '.'), 0)]
			if class, ok := called[holder]; ok && class != sequential {
				continue
			}
			l := list{holder, m.Class}
			if members[l] == nil {
				order = append(order, l)
			}
			if !slices.Contains(members[l], m.Path) {
				members[l] = append(members[l], m.Path)
			}
		}
	}
	var found []string
	for _, l := range order {
		within := slices.ContainsFunc(found, func(f string) bool { return strings.HasPrefix(l.holder+".", f+".") })
		if len(members[l]) > 1 && !within {
			found = append(found, members[l]...)
		}
	}
	return slices.DeleteFunc(found, func(path string) bool { return spared[path] })
}
