package exported

import "fmt"

// Bound is a graph with a number for every symbolic size.
type Bound struct {
	*Graph
	exprs []int64
}

// Bind gives every symbolic size a number: size is asked once for each symbol.
func (g *Graph) Bind(size func(Symbol) (int64, error)) (*Bound, error) {
	symbols := make([]int64, len(g.Symbols))
	for i, s := range g.Symbols {
		n, err := size(s)
		if err != nil {
			return nil, err
		}
		if n <= 0 {
			return nil, fmt.Errorf("size %d for %s: sizes are positive", n, s.Name)
		}
		if s.Max > 0 && n > s.Max {
			return nil, fmt.Errorf("size %d for %s: the graph was exported for at most %d", n, s.Name, s.Max)
		}
		symbols[i] = n
	}
	b := &Bound{Graph: g, exprs: make([]int64, len(g.exprs))}
	for i, e := range g.exprs {
		v, err := e.value(symbols)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNotGraph, err)
		}
		b.exprs[i] = v
	}
	return b, b.check()
}

// check refuses sizes that no tensor has, so that products of them stay in range.
func (b *Bound) check() error {
	for i := range b.Values {
		v := &b.Values[i]
		elements := int64(1)
		for _, d := range v.Sizes {
			n := b.Dim(d)
			if n < 0 || n > 1<<40 {
				return fmt.Errorf("%w: %s has a dimension of %d", ErrNotGraph, v.Name, n)
			}
			if elements *= max(n, 1); elements > 1<<46 {
				return fmt.Errorf("%w: %s has more elements than any tensor", ErrNotGraph, v.Name)
			}
		}
	}
	return nil
}

// Dim is the number behind a size or stride.
func (b *Bound) Dim(d Dim) int64 {
	if d.expr == 0 {
		return d.fixed
	}
	return b.exprs[d.expr]
}

// Dims are the numbers behind sizes or strides.
func (b *Bound) Dims(dims []Dim) []int {
	out := make([]int, len(dims))
	for i, d := range dims {
		out[i] = int(b.Dim(d))
	}
	return out
}

// Int is a whole-number argument, with what stands in the operator's schema where it is absent.
func (b *Bound) Int(n *Node, name string, standard int) int {
	a, ok := n.Arg(name)
	if !ok || a.Kind != Int && a.Kind != Ints || len(a.Ints) == 0 {
		return standard
	}
	return int(b.Dim(a.Ints[0]))
}

// Ints is a list-of-whole-numbers argument; nil where it is absent.
func (b *Bound) Ints(n *Node, name string) []int {
	a, ok := n.Arg(name)
	if !ok || a.Kind != Int && a.Kind != Ints {
		return nil
	}
	return b.Dims(a.Ints)
}
