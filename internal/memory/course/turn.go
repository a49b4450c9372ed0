// Package course plays a whole training run through one allocator: thousands of steps whose batches differ in shape.
//
// It takes turns, each cut once from the tape of a shape (a training step, or one batch of an evaluation), and a Policy with the limit there is; out comes
// what the allocator holds after each of them, and the turn in which a request fails. A turn's own memory is gone when it ends; what it leaves to the
// next (gradients, the values that names of the loop still have) is matched by its owner, so that turns of any shapes follow each other. Refused:
// stretches of a tape that are not there.
package course

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Kind says which names of the script a turn's values have: those of the training loop, or of the evaluation's.
type Kind uint8

// Kinds of turns.
const (
	Training Kind = iota
	Evaluation
)

// key names what one turn leaves to later ones: the nth allocation of an owner that outlives it.
type key struct {
	kind  Kind
	owner tape.Owner
	nth   int
}

// op is one event of a turn: a verb in the two highest bits, below it the number of an allocation among the turn's own, or among those it was left.
type op uint32

const (
	take    op = iota << 30 // an own allocation
	elastic                 // one the program does without where it is refused
	drop                    // an own one is freed
	forget                  // one that an earlier turn left is freed
	index   op = 1<<30 - 1
	verbs      = ^index
)

// Turn is what a step does to memory, wherever in a run it happens.
type Turn struct {
	kind  Kind
	ops   []op
	sizes []units.Bytes // of own allocations
	gets  []key         // what it frees of earlier turns
	left  []left        // what it leaves
}

// left is an own allocation that outlives its turn.
type left struct {
	own int
	key key
}

// Cut makes a turn of the events [from, to) of a tape. They should be a step that repeats: the second or a later one.
func Cut(t *tape.Tape, from, to int, kind Kind) (Turn, error) {
	if from < 0 || to > len(t.Events) || from >= to {
		return Turn{}, fmt.Errorf("a tape of %d events has no turn from %d to %d", len(t.Events), from, to)
	}
	c := newCutter(t)
	c.turn.kind = kind
	c.read(0, from)
	before := c.ordinals()
	own := make(map[uint32]int)
	for i := from; i < to; i++ {
		switch e := &t.Events[i]; e.Kind {
		case tape.Alloc:
			verb := take
			if e.Elastic {
				verb = elastic
			}
			own[e.ID] = len(c.turn.sizes)
			c.turn.ops = append(c.turn.ops, verb|op(len(c.turn.sizes)))
			c.turn.sizes = append(c.turn.sizes, e.Size)
		case tape.Free:
			if n, ok := own[e.ID]; ok {
				c.turn.ops = append(c.turn.ops, drop|op(n))
				delete(own, e.ID)
				break
			}
			c.turn.ops = append(c.turn.ops, forget|op(len(c.turn.gets)))
			c.turn.gets = append(c.turn.gets, c.key(e.ID, kind, before))
		}
	}
	c.read(from, to)
	after := c.ordinals()
	for id, n := range own {
		c.turn.left = append(c.turn.left, left{n, c.key(id, kind, after)})
	}
	slices.SortFunc(c.turn.left, func(a, b left) int { return cmp.Compare(a.own, b.own) })
	return c.turn, nil
}

// WithSizes is the turn with other sizes: those of its allocations, in order, which may be followed by others.
func (t Turn) WithSizes(sizes []units.Bytes) Turn {
	t.sizes = sizes[:len(t.sizes):len(t.sizes)]
	return t
}

// cutter follows what is alive.
type cutter struct {
	t    *tape.Tape
	born []int32 // by id: the event of its allocation plus one
	live []bool
	turn Turn
}

func newCutter(t *tape.Tape) *cutter {
	return &cutter{t: t, born: make([]int32, t.Allocs), live: make([]bool, t.Allocs)}
}

func (c *cutter) read(from, to int) {
	for i := from; i < to; i++ {
		switch e := &c.t.Events[i]; e.Kind {
		case tape.Alloc:
			c.born[e.ID], c.live[e.ID] = int32(i)+1, true
		case tape.Free:
			c.live[e.ID] = false
		}
	}
}

// ordinals count all that is alive by owner; ids are numbered in the order of their allocation.
func (c *cutter) ordinals() []int32 {
	out := make([]int32, len(c.live))
	count := make([]int32, len(c.t.Owners))
	for id, live := range c.live {
		if live {
			o := c.t.Events[c.born[id]-1].Owner
			out[id] = count[o]
			count[o]++
		}
	}
	return out
}

func (c *cutter) key(id uint32, kind Kind, ordinals []int32) key {
	return key{kind, c.t.Owners[c.t.Events[c.born[id]-1].Owner], int(ordinals[id])}
}

// Steps are where the steps of a tape begin, and its end: step n lies between the entries n-1 and n.
func Steps(t *tape.Tape) []int {
	var out []int
	for i := range t.Events {
		if e := &t.Events[i]; e.Kind == tape.Mark && t.Moments[e.Owner].Step == len(out)+1 {
			out = append(out, i)
		}
	}
	return append(out, len(t.Events))
}

// Forwards are where forward passes begin in a stretch of a tape.
func Forwards(t *tape.Tape, from, to int) []int {
	var out []int
	for i := from; i < to; i++ {
		if e := &t.Events[i]; e.Kind == tape.Mark && t.Moments[e.Owner].Phase == torch.PhaseForward {
			out = append(out, i)
		}
	}
	return out
}
