package timeline

import (
	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/snapshot"
)

// A site is where the program called a model: the path of calls outside the outermost module. Two stacks of one site differ inside the model.
type site struct {
	stretches int  // finished by a backward pass, in which it was called
	last      int  // of them, with it as the last call before the backward pass
	most      int  // the most calls in one stretch
	trailing  bool // called after the last backward pass
}

// trained tells a call that belongs to training: the last one before a backward pass, or one in at least half of the stretches between two
// backward passes, as of a teacher or a target network.
func (s *site) trained(stretches int) bool { return s.last > 0 || 2*s.stretches >= stretches }

// findEval finds the stacks of evaluation. Names of functions tell most of it (Origin.Eval); order tells the rest: calls of a model that no backward
// pass follows, several in one stretch, as a loop over batches makes them, or only after the last backward pass of a history that has at least
// two. What the program itself asks for around such calls goes with them.
func (t *Timeline) findEval() {
	t.eval = make([]bool, t.Origins.Stacks.Len())
	named := false
	for id := range t.eval {
		t.eval[id] = t.Origins.Of(snapshot.StackID(id)).Eval
		named = named || t.eval[id]
	}
	w := newSiteWalk(t)
	w.walk()
	if w.untrained() || named {
		t.evalAround()
	}
}

// IsEval tells whether a stack belongs to evaluation.
func (t *Timeline) IsEval(stack snapshot.StackID) bool { return t.eval[stack] }

// siteWalk looks at the calls between backward passes.
type siteWalk struct {
	t         *Timeline
	of        []int32 // site by stack; 0: none
	sites     []site
	counts    []int32 // by stack: events in this stretch
	touched   []snapshot.StackID
	last      int32
	stretches int
}

func newSiteWalk(t *Timeline) *siteWalk {
	n := t.Origins.Stacks.Len()
	w := &siteWalk{t: t, of: make([]int32, n), sites: make([]site, 1), counts: make([]int32, n)}
	index := map[uint64]int32{}
	for id := range n {
		stack := snapshot.StackID(id)
		at := t.Origins.Caller(stack)
		if at == 0 || t.Origins.Of(stack).Phase != callsite.Forward {
			continue
		}
		h := uint64(14695981039346656037) // FNV-1a over the frames
		for _, f := range t.Origins.Stacks.Stack(stack)[at:] {
			h = (h ^ uint64(f)) * 1099511628211
		}
		if index[h] == 0 {
			index[h] = int32(len(w.sites))
			w.sites = append(w.sites, site{})
		}
		w.of[id] = index[h]
	}
	return w
}

func (w *siteWalk) walk() {
	t, back := w.t, false
	for i := range t.Tape.Events {
		stack, asks := t.request(i)
		if !asks {
			continue
		}
		phase := t.PhaseAt(i, stack)
		if phase == callsite.Backward && !back && len(w.touched) > 0 {
			w.finish(true)
		}
		back = phase == callsite.Backward
		if phase != callsite.Forward || w.of[stack] == 0 {
			continue
		}
		if w.counts[stack] == 0 {
			w.touched = append(w.touched, stack)
		}
		w.counts[stack]++
		w.last = w.of[stack]
	}
	w.finish(false)
}

// finish ends a stretch. A site was called as often as the rarest of its stacks was seen: something of a call, like its last layer, comes only once in it.
func (w *siteWalk) finish(byBackward bool) {
	least := map[int32]int32{}
	for _, stack := range w.touched {
		s := w.of[stack]
		if n := least[s]; n == 0 || w.counts[stack] < n {
			least[s] = w.counts[stack]
		}
		w.counts[stack] = 0
	}
	for s, n := range least {
		u := &w.sites[s]
		u.most = max(u.most, int(n))
		if !byBackward {
			u.trailing = true
			continue
		}
		u.stretches++
		if s == w.last {
			u.last++
		}
	}
	if byBackward {
		w.stretches++
	}
	w.touched, w.last = w.touched[:0], 0
}

// untrained marks the stacks of calls that are not trained, and tells whether there are any.
func (w *siteWalk) untrained() bool {
	if w.stretches < 2 {
		return false
	}
	training := false // goes on after the last backward pass
	for i := range w.sites {
		training = training || w.sites[i].trailing && w.sites[i].trained(w.stretches)
	}
	any := false
	for id, i := range w.of {
		s := &w.sites[i]
		after := s.stretches == 0 && s.trailing && !training
		if i == 0 || s.trained(w.stretches) || s.most < 3 && !after {
			continue
		}
		w.t.eval[id], any = true, true
	}
	return any
}

// evalAround marks what the program asks for around calls of evaluation, outside any module: most of the calls before and after it are of evaluation.
func (t *Timeline) evalAround() {
	votes := make([]int32, t.Origins.Stacks.Len())
	vote := func(i int, now *int32) {
		stack, asks := t.request(i)
		if !asks {
			return
		}
		switch t.PhaseAt(i, stack) {
		case callsite.Forward:
			if *now = -1; t.eval[stack] {
				*now = 1
			}
		case callsite.Backward, callsite.Optimizer:
			*now = -1
		case callsite.User, callsite.Data:
			votes[stack] += *now
		}
	}
	var now int32
	for i := range t.Tape.Events {
		vote(i, &now)
	}
	now = 0
	for i := len(t.Tape.Events) - 1; i >= 0; i-- {
		vote(i, &now)
	}
	for id, v := range votes {
		if v > 0 {
			t.eval[id] = true
		}
	}
}

// request gives the stack of an event that asks for memory, whether it gets it or not.
func (t *Timeline) request(event int) (snapshot.StackID, bool) {
	switch e := &t.Tape.Events[event]; e.Kind {
	case tape.Alloc:
		return t.Stack[e.ID], true
	case tape.OOM:
		return t.Trace.Stack[t.Event[event]], true
	}
	return 0, false
}
