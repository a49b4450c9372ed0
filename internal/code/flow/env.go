package flow

// env holds what names are bound to; a branch writes into a layer of its own. Most layers hold a few names, which are found by looking
// through them; an index is made for those that hold many.
type env struct {
	parent  *env
	entries []entry
	index   map[string]int
}

// entry is a name and what it is bound to.
type entry struct {
	name  string
	value Value
}

// manyNames is how many names a layer holds before it gets an index; fewNames how many it has room for at first.
const manyNames, fewNames = 12, 4

// own finds a name in this layer.
func (e *env) own(name string) (Value, bool) {
	if i := e.find(name); i >= 0 {
		return e.entries[i].value, true
	}
	return Value{}, false
}

func (e *env) find(name string) int {
	if e.index != nil {
		if i, ok := e.index[name]; ok {
			return i
		}
		return -1
	}
	for i := range e.entries {
		if e.entries[i].name == name {
			return i
		}
	}
	return -1
}

func (e *env) get(name string) (Value, bool) {
	for ; e != nil; e = e.parent {
		if i := e.find(name); i >= 0 {
			return e.entries[i].value, true
		}
	}
	return Value{}, false
}

func (e *env) set(name string, v Value) {
	if i := e.find(name); i >= 0 {
		e.entries[i].value = v
		return
	}
	if e.entries == nil {
		e.entries = make([]entry, 0, fewNames)
	}
	e.entries = append(e.entries, entry{name, v})
	switch {
	case e.index != nil:
		e.index[name] = len(e.entries) - 1
	case len(e.entries) > manyNames:
		e.index = make(map[string]int, 2*len(e.entries))
		for i := range e.entries {
			e.index[e.entries[i].name] = i
		}
	}
}

func (e *env) fork() *env { return &env{parent: e} }

// merge brings branch layers back; complete says that one of them certainly ran.
func (e *env) merge(branches []*env, complete bool) {
	for i, branch := range branches {
		for k := range branch.entries {
			name := branch.entries[k].name
			if !boundBefore(branches[:i], name) {
				e.set(name, e.merged(branches, name, complete))
			}
		}
	}
}

func boundBefore(branches []*env, name string) bool {
	for _, b := range branches {
		if b.find(name) >= 0 {
			return true
		}
	}
	return false
}

// merged is what a name holds after one of several branches.
func (e *env) merged(branches []*env, name string, complete bool) Value {
	before, known := e.get(name)
	var out Value
	first := true
	add := func(v Value) {
		if first {
			out, first = v, false
			return
		}
		out = join(out, v)
	}
	for _, b := range branches {
		if v, ok := b.own(name); ok {
			add(v)
		} else if known {
			add(before)
		}
	}
	if !complete && known {
		add(before)
	}
	return out
}
