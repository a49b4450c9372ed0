package recording

import "hash/maphash"

// addresses maps device addresses to IDs: open addressing with linear probing, since a history does nothing but
// insert and remove. The hash is multiplication by a random odd number, of which the high bits count: addresses
// are multiples of 512, and no file can aim at collisions.
type addresses struct {
	keys   []uint64 // address+1; 0 is an empty slot
	ids    []uint32
	n      int
	mask   uint64
	factor uint64
	shift  uint
}

const firstSlots = 64

func newAddresses() *addresses {
	return sized(firstSlots, maphash.String(maphash.MakeSeed(), "addresses")|1)
}

// sized makes an empty table of a power of two slots.
func sized(slots int, factor uint64) *addresses {
	shift := uint(64)
	for n := slots; n > 1; n /= 2 {
		shift--
	}
	return &addresses{keys: make([]uint64, slots), ids: make([]uint32, slots), mask: uint64(slots - 1), factor: factor, shift: shift}
}

func (a *addresses) slot(addr uint64) uint64 { return (addr + 1) * a.factor >> a.shift }

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

func (a *addresses) get(addr uint64) (uint32, bool) {
	s, ok := a.find(addr)
	return a.ids[s], ok
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
	*a = *sized(2*len(old.keys), old.factor)
	a.n = old.n
	for i, k := range old.keys {
		if k != 0 {
			s, _ := a.find(k - 1)
			a.keys[s], a.ids[s] = k, old.ids[i]
		}
	}
}
