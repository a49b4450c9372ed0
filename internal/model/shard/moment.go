package shard

import (
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Model is what a plan needs to know of a job beside what it holds at a moment.
type Model struct{ m model }

// Measure reads a model off its tape.
func Measure(t *tape.Tape) Model { return Model{measure(t)} }

// WithSaved is the same model with other activations of its layers at the end of the first forward pass, and another first gradient.
func (m Model) WithSaved(saved units.Bytes, first tape.Beside) Model {
	m.m.saved, m.m.beside, m.m.head = saved, first.Least, first.First
	return m
}

// Moment is what a rank holds at a moment of the job on one card. It grows with what every category holds, so PerRank is its largest value.
func (p Plan) Moment(m Model, now [tape.Categories]units.Bytes, backward bool) units.Bytes {
	held, _ := p.rank(m.m, now, backward)
	return held + m.m.inFlight(p.Stages)
}

// Cached is what a rank's allocator keeps beyond what it would on one card.
func (p Plan) Cached(m Model) units.Bytes { return p.cached(m.m) }

// InFlight is what the first of several pipeline stages holds beyond one micro-batch.
func (m Model) InFlight(stages int) units.Bytes { return m.m.inFlight(stages) }
