// Package deepen cuts the tape of a shallow model so that it can be played at any depth.
//
// It takes a Recording: the tape of two training steps without an optimizer on a model with few layers, and which layer ran at each event. Out comes a
// Template, which writes the tape of the same model with more layers, for three steps, with the turns of any optimizer. Every pass visits the layers one after
// the other, up or down; where those in the middle of a stretch of equal layers did the same, event by event, so do those that are added between them.
// Refused: recordings whose middle layers differ, or whose second step would not repeat; they have to be run at their full depth.
package deepen

import (
	"errors"
	"fmt"
	"slices"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
)

// ErrIrregular tells that a recording does not repeat itself.
var ErrIrregular = errors.New("layers or steps do not repeat")

// Recording is what a template is cut from.
type Recording struct {
	Tape   *tape.Tape
	Layers []int32 // by event: the layer that ran, -1 for none
	Made   int     // the event before which an optimizer would be made
	Steps  []int   // those before which its two steps would run
	// Zones counts the layers of each stretch of equal ones, from the first layer on (checkpointed ones, then others). None: the model has no layers that
	// are alike, and the template plays at its own depth only.
	Zones []int
	// Period is after how many layers they are alike again; 0 is 1: every layer is like its neighbours.
	Period int
}

// edge is how many layers at either end of a zone may be unlike those in its middle.
const edge = 2

// stretchable is how many layers of a zone are recorded at least that can be played with any number from 2·edge on: two periods in the middle, to be compared.
func stretchable(period int) int { return 2*edge + 2*period }

// Enough is how many layers of a zone have to be recorded so that it can be played with n: both begin and end at the same point of the period.
func Enough(n, period int) int {
	if n < 2*edge {
		return n
	}
	return stretchable(period) + (n-2*edge)%period
}

// Template is a recording cut to pieces.
type Template struct {
	zones   []int
	period  int
	depth   int
	groups  []group
	pieces  [5]int // where load, step 1, its end, step 2 and its end begin among the groups
	names   []name // of owners
	moments []tape.Moment
	carried [][2]int // what the second step lets go of the first, and its like in the second: events of the recording
}

// group is a part of the tape: events outside of layers, or one visit to every layer of some zones.
type group struct {
	sweep     bool
	low, high int       // a sweep: the borders it lies between
	down      bool      // from the last layer to the first
	parts     [][]event // by layer; one where it is no sweep
	starts    []int     // by layer: the event of the recording that its part begins with
}

// event is one of the tape with references that do not depend on the depth.
type event struct {
	kind    tape.Kind
	elastic bool // the program does without it where it is refused
	size    units.Bytes
	owner   place // index: of the name
	ref     place // of a Free: the allocation; index: which of its part
	again   place // the same in a further step
	prior   bool  // in a further step the allocation is the step before's
}

// how says what a place's layer is counted from.
type how uint8

const (
	nowhere  how = iota // no layer
	relative            // the layer the event is in
	anchored            // a border between zones
)

// place is a position that moves with the depth.
type place struct {
	how    how
	border int8 // anchored: which border
	offset int16
	group  int32
	index  int32
}

// name is an owner, its layer left open.
type name struct {
	category     tape.Category
	list, within string
	layered      bool // the layer is left open
	inLayer      bool // it belongs to a layer at all
	op           string
}

// Cut makes a template of a recording.
func Cut(r Recording) (*Template, error) {
	c := &cutter{r: r, template: &Template{zones: slices.Clone(r.Zones), period: max(1, r.Period), moments: r.Tape.Moments}, where: make([]spot, r.Tape.Allocs), borders: borders(r.Zones)}
	c.template.depth = c.borders[len(r.Zones)]
	if len(r.Steps) != 2 || len(r.Layers) != len(r.Tape.Events) {
		return nil, fmt.Errorf("a template is cut from two steps with their layers: %w", ErrIrregular)
	}
	c.name()
	c.follow()
	for _, do := range []func() error{c.match, c.divide, c.fill, c.template.check} {
		if err := do(); err != nil {
			return nil, err
		}
	}
	return c.template, nil
}

// cutter is one run of Cut.
type cutter struct {
	r        Recording
	template *Template
	borders  []int   // of zones
	start    int     // the event that begins the second step
	born     []int   // by allocation: its event
	ended    []int   // by allocation: the event that frees it, -1 for none
	next     []int32 // by allocation of the first step that the second frees: its like in the second; -1 for others
	owner    []int32 // by owner of the tape: its name
	at       []int32 // by owner of the tape: its layer, -1 for none
	layer    []int32 // by event: the layer it counts to
	done     int     // events divided so far
	where    []spot  // by allocation
	spans    [][]span
}

// name strips owners of their layers.
func (c *cutter) name() {
	known := map[name]int32{}
	for _, o := range c.r.Tape.Owners {
		n := name{category: o.Category, within: o.Module, op: o.Op}
		layer := int32(-1)
		list, within, at, ok := tape.Layer(o.Module)
		n.inLayer = ok
		if ok && at < c.template.depth {
			n.list, n.within, n.layered, layer = list, within, true, int32(at)
		}
		i, ok := known[n]
		if !ok {
			i = int32(len(c.template.names))
			known[n] = i
			c.template.names = append(c.template.names, n)
		}
		c.owner, c.at = append(c.owner, i), append(c.at, layer)
	}
}

// match finds for what the second step lets go of the first its like in the second, which a third would let go.
func (c *cutter) match() error {
	t := c.r.Tape
	c.next = make([]int32, t.Allocs)
	var first, second []int32
	for id := range c.next {
		c.next[id] = -1
		switch born, ended := c.born[id], c.ended[id]; {
		case born < c.start && ended >= c.start:
			if born < c.r.Made {
				return fmt.Errorf("the second step frees something that was loaded: %w", ErrIrregular)
			}
			first = append(first, int32(id))
		case born >= c.start && ended < 0:
			second = append(second, int32(id))
		}
	}
	if len(first) != len(second) {
		return fmt.Errorf("the first step leaves %d allocations to the second, that %d: %w", len(first), len(second), ErrIrregular)
	}
	for i, id := range first {
		a, b := &t.Events[c.born[id]], &t.Events[c.born[second[i]]]
		if a.Size != b.Size || a.Owner != b.Owner {
			return fmt.Errorf("allocation %d of the first step has no counterpart in the second: %w", id, ErrIrregular)
		}
		c.next[id] = second[i]
		c.template.carried = append(c.template.carried, [2]int{c.born[id], c.born[second[i]]})
	}
	return nil
}

// check compares the layers in the middle of each zone with those a period later.
func (r *Template) check() error {
	for g := range r.groups {
		if !r.groups[g].sweep {
			continue
		}
		parts := r.groups[g].parts
		from := 0
		for _, n := range r.zones {
			for l := from + edge; l+r.period < from+n-edge; l++ {
				if !slices.Equal(parts[l], parts[l+r.period]) {
					return fmt.Errorf("layers %d and %d differ: %w", l, l+r.period, ErrIrregular)
				}
			}
			from += n
		}
	}
	return nil
}
