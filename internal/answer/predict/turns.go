package predict

import (
	"fmt"
	"sync"

	"github.com/plimsoll/plimsoll/internal/memory/course"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/deepen"
	"github.com/plimsoll/plimsoll/internal/setup"
)

// Stretch picks a part of the third step of a tape.
type Stretch struct {
	Micro int // micro-batches of a step
	Name  int // tells stretches of as many micro-batches apart
	Pick  func(t *tape.Tape, steps []int) (from, to int, err error)
}

// patterns are the turns of shapes that were made from a tape, with how to make those of other shapes that do the same with other sizes.
type patterns struct {
	mu  sync.Mutex
	all []pattern
}

type pattern struct {
	*deepen.Pattern
	micro, name int
	turn        course.Turn
	first       int // allocation of the third step that the turn begins with
}

// mostPatterns is how many are kept; shapes differ in a few ways beside their sizes: padded or not, one sample or several.
const mostPatterns = 12

// Turn is what a stretch of a step with batches of a shape does to memory: what course.Cut makes of the shape's tape.
func (s *Shapes) Turn(sh Shape, at Stretch) (course.Turn, error) {
	j := s.job(sh)
	j.Accumulate = at.Micro
	way := alikeLayers(s.src, j)
	zones := way.zones
	if zones == nil {
		return s.slowTurn(sh, at)
	}
	rec, f, err := s.v.rehearse(j, s.src, way)
	if err != nil {
		return course.Turn{}, fmt.Errorf("a batch of %d × %d: %w", sh.Batch, sh.Seq, err)
	}
	if turn, ok := s.known.turn(rec, at); ok {
		return turn, nil
	}
	template, err := deepen.Cut(rec)
	if err != nil { // layers that are not alike
		return s.slowTurn(sh, at)
	}
	o := s.v.turnsOf(j, setup.Cut{}, f)
	if o.err != nil {
		return course.Turn{}, o.err
	}
	t, err := template.Write(zones, o.turns)
	if err != nil {
		return course.Turn{}, err
	}
	steps := course.Steps(t)
	from, to, err := at.Pick(t, steps)
	if err != nil {
		return course.Turn{}, err
	}
	turn, err := course.Cut(t, from, to, course.Training)
	if err != nil {
		return course.Turn{}, err
	}
	if made, err := template.Pattern(rec, zones, o.turns); err == nil && from >= steps[2] {
		s.known.add(pattern{made, at.Micro, at.Name, turn, allocations(t, steps[2], from)})
	}
	return turn, nil
}

// slowTurn makes a turn from the whole tape of its shape.
func (s *Shapes) slowTurn(sh Shape, at Stretch) (course.Turn, error) {
	t, steps, err := s.Tape(sh, at.Micro)
	if err != nil {
		return course.Turn{}, err
	}
	from, to, err := at.Pick(t, steps)
	if err != nil {
		return course.Turn{}, err
	}
	return course.Cut(t, from, to, course.Training)
}

func allocations(t *tape.Tape, from, to int) int {
	n := 0
	for i := from; i < to; i++ {
		if t.Events[i].Kind == tape.Alloc {
			n++
		}
	}
	return n
}

// turn makes the turn of a recording that has a known pattern.
func (p *patterns) turn(rec deepen.Recording, at Stretch) (course.Turn, bool) {
	p.mu.Lock()
	all := p.all
	p.mu.Unlock()
	for i := range all {
		k := &all[i]
		if k.micro != at.Micro || k.name != at.Name {
			continue
		}
		if sizes, ok := k.Sizes(rec); ok {
			return k.turn.WithSizes(sizes[k.first:]), true
		}
	}
	return course.Turn{}, false
}

func (p *patterns) add(k pattern) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.all) < mostPatterns {
		p.all = append(p.all[:len(p.all):len(p.all)], k)
	}
}
