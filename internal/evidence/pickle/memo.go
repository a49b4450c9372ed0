package pickle

// memo remembers values by slot in 32 bits each: the top four bits are the kind, the rest N. Scalars, which neither pickler
// ever memoises, go to a side list.
type memo struct {
	slots   []uint32
	scalars []Value
}

const (
	memoBits   = 28
	memoEmpty  = 0 // kind None with N 0 doubles as "never filled": None is not memoised either
	memoScalar = 15 << memoBits
)

func (m *memo) len() int { return len(m.slots) }

func (m *memo) put(slot int, v Value) {
	for len(m.slots) <= slot {
		m.slots = append(roomy(m.slots), memoEmpty)
	}
	if v.Kind >= FirstReference && v.Kind < lastKind && v.N < 1<<memoBits {
		m.slots[slot] = uint32(v.Kind)<<memoBits | uint32(v.N)
		return
	}
	m.scalars = append(m.scalars, v)
	m.slots[slot] = memoScalar | uint32(len(m.scalars)-1)
}

// roomy doubles the room of a slice that is full: millions of slots would otherwise be copied again and again.
func roomy(slots []uint32) []uint32 {
	if len(slots) < cap(slots) {
		return slots
	}
	return append(make([]uint32, 0, 2*cap(slots)+1024), slots...)
}

func (m *memo) get(slot int) (Value, bool) {
	if slot >= len(m.slots) || m.slots[slot] == memoEmpty {
		return Value{}, false
	}
	s := m.slots[slot]
	if s >= memoScalar {
		return m.scalars[s&(1<<memoBits-1)], true
	}
	return Value{Kind(s >> memoBits), uint64(s & (1<<memoBits - 1))}, true
}
