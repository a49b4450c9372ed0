package exported

import (
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
)

// ends is how many layers at either end of a model may be unlike those between them; one more at either end is kept when layers are left out.
const ends = 2

// Shortest is the smallest depth that WithDepth makes.
const Shortest = 2*ends + 2

// repeats describes a traced graph whose nodes run one layer after the other, all alike but those at the ends.
type repeats struct {
	list   string // module path of the layers: "model.layers"
	depth  int
	first  []int   // by layer, and for the end: its first node
	layer  []int   // by value: the layer that makes or holds it; -1 for none
	place  []int   // by value of a layer: which of it
	made   [][]int // by layer: the values its nodes make, in order
	held   [][]int // by layer: its parameters and buffers, in the order of the signature
	stacks []int   // by stack: its layer
}

// Depth is the number of layers of a traced model whose layers are alike, but for two at either end; 0 for others.
func (g *Graph) Depth() int {
	if r := g.repeated(); r != nil {
		return r.depth
	}
	return 0
}

func (g *Graph) repeated() *repeats {
	g.once.Do(func() { g.repeats = findRepeats(g) })
	return g.repeats
}

// findRepeats is nil for a graph whose layers are not alike, or too few to leave some out.
func findRepeats(g *Graph) *repeats {
	if g.Trace == nil {
		return nil
	}
	r := &repeats{layer: make([]int, len(g.Values)), place: make([]int, len(g.Values))}
	for v := range r.layer {
		r.layer[v] = -1
	}
	if !r.findNodes(g) || r.depth <= Shortest || !r.findValues(g) || !r.onlyNeighbours(g) {
		return nil
	}
	for l := ends; l+1 < r.depth-ends; l++ {
		if !r.alike(g, l) {
			return nil
		}
	}
	if _, ok := r.created(g); !ok {
		return nil
	}
	return r
}

// of is the layer that a path lies in; -1 for none, -2 for that of another list.
func (r *repeats) of(path string) int {
	list, _, l, ok := tape.Layer(path)
	switch {
	case !ok:
		return -1
	case r.list == "":
		r.list = list
	case r.list != list:
		return -2
	}
	return l
}

// findNodes finds where each layer's nodes begin. What runs between two layers counts to the first of them.
func (r *repeats) findNodes(g *Graph) bool {
	r.stacks = make([]int, len(g.Stacks))
	for i, modules := range g.Stacks {
		r.stacks[i] = -1
		if n := len(modules); n > 0 {
			r.stacks[i] = r.of(modules[n-1].Path)
		}
	}
	end := 0
	for i := range g.Nodes {
		switch l := r.stacks[g.Nodes[i].Stack]; {
		case l == -1:
		case l == r.depth:
			r.first = append(r.first, i)
			r.depth++
			end = i + 1
		case l == r.depth-1:
			end = i + 1
		default:
			return false
		}
	}
	r.first = append(r.first, end)
	return true
}

// findValues notes which layer each value belongs to.
func (r *repeats) findValues(g *Graph) bool {
	r.made, r.held = make([][]int, r.depth), make([][]int, r.depth)
	note := func(in [][]int, l, v int) {
		r.layer[v], r.place[v] = l, len(in[l])
		in[l] = append(in[l], v)
	}
	for _, v := range g.Inputs {
		if g.Values[v].FQN == "" {
			continue
		}
		l := r.of(g.Values[v].FQN)
		if l < -1 || l >= r.depth {
			return false
		}
		if l >= 0 {
			note(r.held, l, v)
		}
	}
	for l := range r.depth {
		for i := r.first[l]; i < r.first[l+1]; i++ {
			for _, v := range g.Nodes[i].Outputs {
				if v >= 0 && r.layer[v] < 0 {
					note(r.made, l, v)
				}
			}
		}
	}
	return true
}

// uses hands out every value that a node reads, lets go or makes.
func (n *Node) uses(yield func(v int) bool) {
	for i := range n.Args {
		for _, v := range n.Args[i].Values {
			if v >= 0 && !yield(v) {
				return
			}
		}
	}
	for _, list := range [][]int{n.Dies, n.Outputs} {
		for _, v := range list {
			if v >= 0 && !yield(v) {
				return
			}
		}
	}
}

// onlyNeighbours tells whether nothing but a layer itself and the next one refers to what a layer in the middle has.
func (r *repeats) onlyNeighbours(g *Graph) bool {
	inner := func(l int) bool { return l > ends && l < r.depth-ends-1 }
	layer := -1
	for i := range g.Nodes {
		for layer+1 <= r.depth && i >= r.first[layer+1] {
			layer++ // depth: behind the last one
		}
		for v := range g.Nodes[i].uses {
			if l := r.layer[v]; inner(l) && l != layer && (l != layer-1 || g.Values[v].FQN != "") {
				return false
			}
		}
	}
	for _, o := range g.Outputs {
		if o.Value >= 0 && inner(r.layer[o.Value]) {
			return false
		}
	}
	for v := range g.Values {
		if inner(r.layer[v]) && slices.Contains(g.Trace.Held, g.Values[v].Name) {
			return false
		}
	}
	return true
}

// alike tells whether a layer and the next one do the same.
func (r *repeats) alike(g *Graph, l int) bool {
	a, b := g.Nodes[r.first[l]:r.first[l+1]], g.Nodes[r.first[l+1]:r.first[l+2]]
	if len(a) != len(b) || len(r.made[l]) != len(r.made[l+1]) || len(r.held[l]) != len(r.held[l+1]) {
		return false
	}
	for _, lists := range [][][]int{r.made, r.held} {
		for i, v := range lists[l] {
			if !r.sameValue(&g.Values[v], &g.Values[lists[l+1][i]]) {
				return false
			}
		}
	}
	for i := range a {
		if !r.sameNode(g, &a[i], &b[i]) {
			return false
		}
	}
	return true
}

func (r *repeats) sameValue(a, b *Value) bool {
	return a.DType == b.DType && a.Role == b.Role && a.RequiresGrad == b.RequiresGrad && a.Persistent == b.Persistent &&
		slices.Equal(a.Sizes, b.Sizes) && slices.Equal(a.Strides, b.Strides) && within(a.FQN) == within(b.FQN)
}

// within is a path from its layer on.
func within(path string) string {
	_, rest, _, _ := tape.Layer(path)
	return rest
}

// sameNode compares nodes of neighbouring layers.
func (r *repeats) sameNode(g *Graph, a, b *Node) bool {
	if a.Target != b.Target || a.NoGrad != b.NoGrad || a.NoAutocast != b.NoAutocast || a.NoCuDNN != b.NoCuDNN || len(a.Args) != len(b.Args) ||
		!r.sameUses(g, a.Outputs, b.Outputs) || !r.sameUses(g, a.Dies, b.Dies) || !sameStack(g.Stacks[a.Stack], g.Stacks[b.Stack]) {
		return false
	}
	for i := range a.Args {
		x, y := &a.Args[i], &b.Args[i]
		if x.Name != y.Name || x.Kind != y.Kind || x.Text != y.Text || x.DType != y.DType || !slices.Equal(x.Ints, y.Ints) ||
			!slices.Equal(x.Floats, y.Floats) || !slices.Equal(x.Bools, y.Bools) || !r.sameUses(g, x.Values, y.Values) {
			return false
		}
	}
	return true
}

// sameUses compares references from a layer with those from the next: to values outside of layers, or at the same place one layer on.
func (r *repeats) sameUses(g *Graph, a, b []int) bool {
	return slices.EqualFunc(a, b, func(x, y int) bool {
		if x < 0 || y < 0 || r.layer[x] < 0 || r.layer[y] < 0 {
			return x == y
		}
		return r.layer[y] == r.layer[x]+1 && r.place[x] == r.place[y] && (g.Values[x].FQN == "") == (g.Values[y].FQN == "")
	})
}

func sameStack(a, b []Module) bool {
	return slices.EqualFunc(a, b, func(x, y Module) bool { return x.Class == y.Class && within(x.Path) == within(y.Path) })
}

// created is the layer of everything that the constructor makes, -1 outside of layers; what has no name of its own counts to the layer before it.
// It is refused where layers are not made one after the other, or those in the middle not alike.
func (r *repeats) created(g *Graph) (layers []int, ok bool) {
	parts := make([][]Made, r.depth+1) // the last one: behind the layers
	layer, end := -1, -1
	for i, m := range g.Trace.Created {
		l := r.of(m.Name)
		if l == -2 || l >= r.depth || l >= 0 && l != layer && l != layer+1 {
			return nil, false
		}
		if l >= 0 {
			layer, end = l, i
		}
		layers = append(layers, layer)
		if layer >= 0 {
			parts[layer] = append(parts[layer], Made{within(m.Name), m.Elements, m.Width})
		}
	}
	for i := end + 1; i < len(layers); i++ {
		layers[i] = -1
	}
	for l := ends; l+1 < r.depth-ends; l++ {
		if !slices.Equal(parts[l], parts[l+1]) {
			return nil, false
		}
	}
	return layers, layer == r.depth-1
}

// WithDepth is the same model with fewer of its middle layers: at least Shortest, at most Depth.
func (g *Graph) WithDepth(depth int) *Graph {
	r := g.repeated()
	if r == nil || depth >= r.depth || depth < Shortest {
		return g
	}
	c := &shortening{repeats: r, from: depth - ends - 1, to: r.depth - ends - 1, stacks: map[int]int{}}
	out := &Graph{TorchVersion: g.TorchVersion, Outputs: g.Outputs, Symbols: g.Symbols, exprs: g.exprs, Stacks: slices.Clone(g.Stacks), Values: slices.Clone(g.Values)}
	for _, v := range g.Inputs {
		if !c.drops(r.layer[v]) {
			out.Inputs = append(out.Inputs, v)
			out.Values[v].FQN = c.rename(g.Values[v].FQN)
		}
	}
	out.Nodes = slices.Clone(g.Nodes[:r.first[c.from]])
	for i := r.first[c.to]; i < len(g.Nodes); i++ {
		out.Nodes = append(out.Nodes, c.node(out, g.Nodes[i]))
	}
	trace := *g.Trace
	trace.Created = nil
	layers, _ := r.created(g)
	for i, m := range g.Trace.Created {
		if !c.drops(layers[i]) {
			trace.Created = append(trace.Created, Made{c.rename(m.Name), m.Elements, m.Width})
		}
	}
	for _, paths := range []*[]string{&trace.Checkpoints, &trace.Frozen, &trace.Linears, &trace.Turned} {
		*paths = left(c, *paths, func(path *string) *string { return path })
	}
	trace.Stacked = left(c, g.Trace.Stacked, func(s *Stack) *string { return &s.Name })
	trace.Convs = left(c, g.Trace.Convs, func(m *Conv) *string { return &m.Name })
	trace.Tables = left(c, g.Trace.Tables, func(m *Table) *string { return &m.Name })
	out.Trace = &trace
	return out
}

// left are the modules or parameters that are left, under their new names.
func left[T any](c *shortening, all []T, name func(*T) *string) (out []T) {
	for _, m := range all {
		if at := name(&m); !c.drops(c.of(*at)) {
			*at = c.rename(*at)
			out = append(out, m)
		}
	}
	return out
}

// shortening leaves the layers from…to out.
type shortening struct {
	*repeats
	from, to int
	stacks   map[int]int // by stack: what became of it
}

func (c *shortening) drops(layer int) bool { return layer >= c.from && layer < c.to }

// rename gives a path its new layer.
func (c *shortening) rename(path string) string {
	if path == "" {
		return path
	}
	list, rest, l, ok := tape.Layer(path)
	if !ok || list != c.list || l < c.to {
		return path
	}
	parts := []string{strconv.Itoa(l - c.to + c.from)}
	if list != "" {
		parts = []string{list, parts[0]}
	}
	if rest != "" {
		parts = append(parts, rest)
	}
	return strings.Join(parts, ".")
}

// node is a node behind the gap: what it used of the last layer that is left out is that of the last one before it.
func (c *shortening) node(g *Graph, n Node) Node {
	n.Args = slices.Clone(n.Args)
	for i := range n.Args {
		n.Args[i].Values = c.values(n.Args[i].Values)
	}
	n.Dies, n.Outputs = c.values(n.Dies), c.values(n.Outputs)
	n.Stack = c.stack(g, n.Stack)
	return n
}

func (c *shortening) values(all []int) []int {
	if !slices.ContainsFunc(all, func(v int) bool { return v >= 0 && c.drops(c.layer[v]) }) {
		return all
	}
	all = slices.Clone(all)
	for i, v := range all {
		if v >= 0 && c.drops(c.layer[v]) {
			all[i] = c.made[c.from-1][c.place[v]]
		}
	}
	return all
}

func (c *shortening) stack(g *Graph, at int) int {
	if c.repeats.stacks[at] < c.to {
		return at
	}
	to, ok := c.stacks[at]
	if !ok {
		to = len(g.Stacks)
		c.stacks[at] = to
		modules := slices.Clone(g.Stacks[at])
		for i := range modules {
			modules[i].Path = c.rename(modules[i].Path)
		}
		g.Stacks = append(g.Stacks, modules)
	}
	return to
}
