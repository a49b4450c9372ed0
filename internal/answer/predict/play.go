package predict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/units"
)

// played is a tape seen through the allocator model.
type played struct {
	afterLoad  units.Bytes
	peak       units.Bytes // allocated
	reserved   units.Bytes
	upward     units.Bytes // reserved, had the driver handed out addresses in another order, or the model been built on the host
	event      int         // of the peak
	free       alloc.Peak  // in as much memory as it likes
	phase      string
	step       int
	where      string
	steps      []map[string]units.Bytes
	categories map[string]units.Bytes
	top        []report.Owned
}

// allocated is how an allocator got through a tape.
type allocated struct {
	res alloc.Result
	err error
}

// play runs a tape through the allocator and notes peaks and owners.
func play(t *tape.Tape, m Machine) (*played, error) {
	p := &played{categories: map[string]units.Bytes{}}
	phase := eager.PhaseLoad
	step, highest := 0, units.Bytes(0) // of this phase
	policy := alloc.Policy{Conf: m.Conf, Torch: m.Torch}
	orders := []alloc.AddressSource{alloc.Increasing()}
	if m.placed {
		policy.Addresses, orders = alloc.Driver(), append(orders, alloc.Decreasing())
	}
	runs := len(orders)
	others := make(chan allocated, runs+1)
	for _, order := range orders {
		go func() {
			other := policy
			other.Addresses = order
			res, err := alloc.Run(t, other, nil)
			others <- allocated{res, err}
		}()
	}
	if moved, ok := t.Moved(); ok {
		runs++
		go func() {
			res, err := alloc.Run(moved, policy, nil)
			others <- allocated{res, err}
		}()
	}
	res, err := alloc.Run(t, policy, func(i int, a *alloc.Allocator) {
		now := a.Stats().Allocated
		if e := &t.Events[i]; e.Kind == tape.Mark {
			p.note(step, phase, highest)
			step, phase, highest = t.Moments[e.Owner].Step, t.Moments[e.Owner].Phase, now
		} else if step == 0 && t.Owners[e.Owner].Category == tape.Parameters {
			p.afterLoad = now // Adagrad's state, made before the first step, does not count
		}
		highest = max(highest, now)
		if now > p.peak {
			p.peak, p.event, p.phase, p.step = now, i, phase, step
		}
	})
	if err != nil {
		return nil, fmt.Errorf("run the allocator: %w", err)
	}
	p.note(step, phase, highest)
	p.reserved, p.free = res.Stats.Peak.Reserved, res.Stats.Peak
	for range runs {
		o := <-others
		if o.err != nil {
			return nil, fmt.Errorf("run the allocator: %w", o.err)
		}
		p.upward = max(p.upward, o.res.Stats.Peak.Reserved)
	}
	p.divide(t)
	return p, nil
}

func (p *played) note(step int, phase string, now units.Bytes) {
	if step == 0 {
		return
	}
	for len(p.steps) < step {
		p.steps = append(p.steps, map[string]units.Bytes{})
	}
	if s := p.steps[step-1]; now > s[phase] {
		s[phase] = now
	}
}

// first is the highest of the first step.
func (p *played) first() units.Bytes {
	var most units.Bytes
	for _, s := range p.steps[:min(len(p.steps), 1)] {
		for _, bytes := range s {
			most = max(most, bytes)
		}
	}
	return most
}

// phases are the highest bytes of each phase over all steps.
func (p *played) phases() map[string]units.Bytes {
	out := map[string]units.Bytes{}
	for _, s := range p.steps {
		for _, name := range []string{eager.PhaseForward, eager.PhaseBackward, eager.PhaseOptimizer} {
			out[name] = max(out[name], s[name])
		}
	}
	return out
}

// divide says whose memory the peak is. Blocks are a little larger than what was asked for; the difference is
// nobody's and counts as other.
func (p *played) divide(t *tape.Tape) {
	live := make([]int32, t.Allocs) // index of the Alloc event plus one
	for i := range t.Events[:min(p.event+1, len(t.Events))] {
		switch e := &t.Events[i]; e.Kind {
		case tape.Alloc:
			live[e.ID] = int32(i) + 1
		case tape.Free:
			live[e.ID] = 0
		}
	}
	for c := range tape.Category(tape.Categories) {
		p.categories[c.String()] = 0
	}
	type key struct {
		category tape.Category
		module   string
	}
	owned := map[key]*report.Owned{}
	byOwner := make([]*report.Owned, len(t.Owners))
	var total units.Bytes
	var name []byte
	for _, at := range live {
		if at == 0 {
			continue
		}
		e := &t.Events[at-1]
		o := t.Owners[e.Owner]
		total += e.Size
		p.categories[o.Category.String()] += e.Size
		if byOwner[e.Owner] == nil {
			name = appendAlike(name[:0], o.Module)
			group := owned[key{o.Category, string(name)}]
			if group == nil {
				group = &report.Owned{Category: o.Category.String(), Module: string(name)}
				owned[key{o.Category, group.Module}] = group
			}
			byOwner[e.Owner] = group
		}
		byOwner[e.Owner].Bytes += e.Size
		byOwner[e.Owner].Count++
	}
	p.categories[tape.Other.String()] += p.peak - total
	for _, o := range owned {
		p.top = append(p.top, *o)
	}
	slices.SortFunc(p.top, func(a, b report.Owned) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Category, b.Category), cmp.Compare(a.Module, b.Module))
	})
	p.top = p.top[:min(len(p.top), 10)]
	if p.event < len(t.Events) && t.Events[p.event].Kind == tape.Alloc { // a script may allocate nothing
		at := t.Owners[t.Events[p.event].Owner]
		p.where = strings.TrimSpace(at.Module + " " + at.Op)
	}
}

// alike names a module by its place in a layer: model.layers.3.mlp and model.layers.4.mlp are both model.layers.*.mlp.
func alike(module string) string {
	var room [96]byte
	return string(appendAlike(room[:0], module))
}

func appendAlike(out []byte, module string) []byte {
	begun, number := 0, true // of a part
	for i := 0; i <= len(module); i++ {
		if i < len(module) && module[i] != '.' {
			number = number && '0' <= module[i] && module[i] <= '9'
			continue
		}
		if number && begun < i {
			out = append(out, '*')
		} else {
			out = append(out, module[begun:i]...)
		}
		if i < len(module) {
			out = append(out, '.')
		}
		begun, number = i+1, true
	}
	return out
}
