package workspace

import "slices"

// layers puts files in an order in which each comes after those it imports: a list of layers, whose groups do not depend on each
// other, each group being files that import each other in a circle (most often one file alone). The order is the same for the same
// files, however they are read.
func layers(files []string, imports func(string) []string) [][][]string {
	t := &tarjan{imports: imports, index: map[string]int{}, low: map[string]int{}, on: map[string]bool{}, group: map[string]int{}}
	for _, f := range files {
		if _, seen := t.index[f]; !seen {
			t.visit(f)
		}
	}
	// Groups come out with what they depend on before them.
	level := make([]int, len(t.groups))
	var out [][][]string
	for i, group := range t.groups {
		for _, f := range group {
			for _, dep := range imports(f) {
				if d := t.group[dep]; d != i {
					level[i] = max(level[i], level[d]+1)
				}
			}
		}
		for len(out) <= level[i] {
			out = append(out, nil)
		}
		slices.Sort(group)
		out[level[i]] = append(out[level[i]], group)
	}
	return out
}

// tarjan finds the strongly connected groups of a graph, iteratively: import chains of large projects are long.
type tarjan struct {
	imports func(string) []string
	index   map[string]int
	low     map[string]int
	on      map[string]bool
	stack   []string
	groups  [][]string
	group   map[string]int
}

type frame struct {
	node string
	next int
}

func (t *tarjan) visit(root string) {
	work := []frame{{root, 0}}
	t.enter(root)
	for len(work) > 0 {
		f := &work[len(work)-1]
		deps := t.imports(f.node)
		if f.next < len(deps) {
			dep := deps[f.next]
			f.next++
			if _, seen := t.index[dep]; !seen {
				t.enter(dep)
				work = append(work, frame{dep, 0})
			} else if t.on[dep] {
				t.low[f.node] = min(t.low[f.node], t.index[dep])
			}
			continue
		}
		node := f.node
		work = work[:len(work)-1]
		if len(work) > 0 {
			parent := work[len(work)-1].node
			t.low[parent] = min(t.low[parent], t.low[node])
		}
		if t.low[node] == t.index[node] {
			t.leave(node)
		}
	}
}

func (t *tarjan) enter(node string) {
	t.index[node] = len(t.index)
	t.low[node] = t.index[node]
	t.stack = append(t.stack, node)
	t.on[node] = true
}

func (t *tarjan) leave(node string) {
	var group []string
	for {
		top := t.stack[len(t.stack)-1]
		t.stack = t.stack[:len(t.stack)-1]
		t.on[top] = false
		t.group[top] = len(t.groups)
		group = append(group, top)
		if top == node {
			break
		}
	}
	t.groups = append(t.groups, group)
}
