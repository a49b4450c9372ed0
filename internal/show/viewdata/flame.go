package viewdata

import (
	"cmp"
	"slices"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// branch is a node while the flame graph is built.
type branch struct {
	frame    snapshot.FrameID
	name     string // in place of a frame
	bytes    [tape.Categories]units.Bytes
	index    map[snapshot.FrameID]*branch
	children []*branch
}

func (b *branch) total() units.Bytes {
	var s units.Bytes
	for _, v := range b.bytes {
		s += v
	}
	return s
}

func (b *branch) add(g *aliveGroup) { b.bytes[g.category] += g.bytes }

// child finds or makes the branch of a frame.
func (b *branch) child(frame snapshot.FrameID, name string) *branch {
	key := frame
	if name != "" {
		key = ^snapshot.FrameID(0) // one nameless branch a parent
	}
	if b.index == nil {
		b.index = map[snapshot.FrameID]*branch{}
	}
	c := b.index[key]
	if c == nil {
		c = &branch{frame: frame, name: name}
		b.index[key] = c
		b.children = append(b.children, c)
	}
	return c
}

// flame makes a tree of stacks, the outermost frame at the root.
func (x *Index) flame(groups []*aliveGroup, total units.Bytes, d Detail, frames *frameTable) Node {
	root := &branch{name: "everything in use"}
	for _, g := range groups {
		root.add(g)
		at := root
		stack := x.T.Origins.Readable(g.stack)
		if len(stack) == 0 {
			at.child(0, x.nameless(g.stack)).add(g)
			continue
		}
		for i := len(stack) - 1; i >= max(0, len(stack)-d.MaxFrames); i-- {
			at = at.child(stack[i], "")
			at.add(g)
		}
	}
	least := total / units.Bytes(max(1, d.Fraction))
	return root.node(max(1, least), frames)
}

// node turns a branch into what is sent, without what is too small to see.
func (b *branch) node(least units.Bytes, frames *frameTable) Node {
	n := Node{Frame: -1, Name: b.name, Bytes: b.total()}
	if b.name == "" {
		n.Frame = frames.of(b.frame)
	}
	most := 0
	for c, v := range b.bytes {
		if v > b.bytes[most] {
			most = c
		}
	}
	n.Category = tape.Category(most).String()
	for _, c := range b.children {
		if c.total() >= least {
			n.Children = append(n.Children, c.node(least, frames))
		}
	}
	slices.SortStableFunc(n.Children, func(p, q Node) int { return cmp.Compare(q.Bytes, p.Bytes) })
	return n
}
