package tape

// Moved is the history of a model that is built on the host and moved to the card when it is whole. A constructor that runs on the card makes weights there which it lets go again (heads
// that are tied to embeddings), and leaves their memory to what comes later; on the host they are never seen. False: the tape shows no such weights, or the model was read from its file.
func (t *Tape) Moved() (*Tape, bool) {
	gone := t.discarded()
	if len(gone) == 0 {
		return nil, false
	}
	out := *t
	out.Events = make([]Event, 0, len(t.Events)-2*len(gone))
	out.Allocs -= len(gone)
	ids, next := make([]uint32, t.Allocs), uint32(0)
	for id := range ids {
		ids[id] = next
		if !gone[uint32(id)] {
			next++
		}
	}
	for _, e := range t.Events {
		if named := e.Kind == Alloc || e.Kind == Free || e.Kind == FreeCompleted; named {
			if gone[e.ID] {
				continue
			}
			e.ID = ids[e.ID]
		}
		out.Events = append(out.Events, e)
	}
	return &out, true
}

// discarded are the parameters that are let go before the first step.
func (t *Tape) discarded() map[uint32]bool {
	if len(t.Initial) > 0 {
		return nil
	}
	out, born := map[uint32]bool{}, map[uint32]bool{}
	for i := range t.Events {
		e := &t.Events[i]
		switch {
		case e.Kind == Mark && t.Moments[e.Owner].Step > 0:
			return out
		case e.Kind == Alloc && t.Owners[e.Owner].Op == OpAhead:
			return nil
		case e.Kind == Alloc && t.Owners[e.Owner].Category == Parameters:
			born[e.ID] = true
		case e.Kind == Free && born[e.ID] && !e.Deferred:
			out[e.ID] = true
		}
	}
	return nil
}
