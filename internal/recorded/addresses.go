package recorded

// addresses maps device addresses to IDs: open addressing with linear probing, since a history does nothing but
// insert and remove. Addresses are multiples of 512, so the low bits carry nothing and are mixed away.
type addresses struct {
	keys []uint64 // address+1; 0 is an empty slot
	ids  []uint32
	n    int
	mask uint64
}

func newAddresses() *addresses {
	return &addresses{keys: make([]uint64, 64), ids: make([]uint32, 64), mask: 63}
}

func (a *addresses) slot(addr uint64) uint64 {
	h := (addr + 1) * 0x9e3779b97f4a7c15
	return (h ^ h>>29) & a.mask
}

// find gives the slot that holds addr, or the empty slot where it would go.
func (a *addresses) find(addr uint64) (uint64, bool) {
	for s := a.slot(addr); ; s = (s + 1) & a.mask {
		if a.keys[s] == 0 {
			return s, false
		}
		if a.keys[s] == addr+1 {
			return s, true
		}
	}
}

func (a *addresses) has(addr uint64) bool {
	_, ok := a.find(addr)
	return ok
}

func (a *addresses) put(addr uint64, id uint32) {
	s, ok := a.find(addr)
	if !ok {
		if a.n++; 2*a.n > len(a.keys) {
			a.grow()
			s, _ = a.find(addr)
		}
		a.keys[s] = addr + 1
	}
	a.ids[s] = id
}

func (a *addresses) take(addr uint64) (uint32, bool) {
	s, ok := a.find(addr)
	if !ok {
		return 0, false
	}
	id := a.ids[s]
	a.remove(s)
	return id, true
}

func (a *addresses) drop(addr uint64) {
	if s, ok := a.find(addr); ok {
		a.remove(s)
	}
}

// remove empties a slot and moves later entries of the run back, so that no tombstones are needed.
func (a *addresses) remove(s uint64) {
	a.n--
	for next := (s + 1) & a.mask; a.keys[next] != 0; next = (next + 1) & a.mask {
		home := a.slot(a.keys[next] - 1)
		if (next-home)&a.mask >= (next-s)&a.mask {
			a.keys[s], a.ids[s] = a.keys[next], a.ids[next]
			s = next
		}
	}
	a.keys[s] = 0
}

func (a *addresses) grow() {
	old := *a
	*a = addresses{keys: make([]uint64, 2*len(old.keys)), ids: make([]uint32, 2*len(old.keys)), mask: uint64(2*len(old.keys) - 1), n: old.n}
	for i, k := range old.keys {
		if k != 0 {
			s, _ := a.find(k - 1)
			a.keys[s], a.ids[s] = k, old.ids[i]
		}
	}
}
