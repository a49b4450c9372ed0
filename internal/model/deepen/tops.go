package deepen

import (
	"slices"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
)

// tops are moments that no other surpasses. During passes parameters and state stay as they are: moments with the same ones stand on a stair, on which
// gradients grow and everything else falls.
type tops []stair

// stair holds moments by their gradients, fewest first.
type stair struct {
	params, state units.Bytes
	backward      bool
	steps         []step
}

type step struct {
	grads, rest units.Bytes
	at          Instant
}

// add puts a moment in its place, and those that it surpasses go.
func (t *tops) add(m Instant) {
	params, state, grads := m.Held[tape.Parameters], m.Held[tape.Optimizer], m.Held[tape.Gradients]
	new := step{grads: grads, rest: m.Total() - params - state - grads, at: m}
	for i := len(*t) - 1; i >= 0; i-- {
		if s := &(*t)[i]; s.params == params && s.state == state && s.backward == m.Backward {
			s.add(new)
			return
		}
	}
	*t = append(*t, stair{params, state, m.Backward, []step{new}})
}

func (s *stair) add(new step) {
	i, _ := slices.BinarySearchFunc(s.steps, new.grads, func(have step, grads units.Bytes) int {
		if have.grads < grads {
			return -1
		}
		return 1
	})
	if i < len(s.steps) && s.steps[i].rest >= new.rest {
		return
	}
	end := i
	if end < len(s.steps) && s.steps[end].grads == new.grads {
		end++
	}
	for i > 0 && s.steps[i-1].rest <= new.rest {
		i--
	}
	s.steps = slices.Replace(s.steps, i, end, new)
}

// moments lists them all.
func (t tops) moments() []Instant {
	var out []Instant
	for _, s := range t {
		for _, step := range s.steps {
			out = append(out, step.at)
		}
	}
	return out
}
