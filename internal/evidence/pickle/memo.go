package pickle

// memo remembers values by slot in 32 bits each: the top four bits are the kind, the rest N. Scalars, which neither pickler
// ever memoises, go to a side list. Slots lie in parts that never move: there are millions.
type memo struct {
	parts   [][]uint32
	n       int
	scalars []Value
}

const (
	memoBits   = 28
	memoEmpty  = 0 // kind None with N 0 doubles as "never filled": None is not memoised either
	memoScalar = 15 << memoBits
	partBits   = 14
	partMask   = 1<<partBits - 1
)

func (m *memo) len() int { return m.n }

func (m *memo) put(slot int, v Value) {
	for slot>>partBits >= len(m.parts) {
		m.parts = append(m.parts, make([]uint32, 1<<partBits))
	}
	m.n = max(m.n, slot+1)
	packed := uint32(v.Kind)<<memoBits | uint32(v.N)
	if v.Kind < FirstReference || v.Kind >= lastKind || v.N >= 1<<memoBits {
		m.scalars = append(m.scalars, v)
		packed = memoScalar | uint32(len(m.scalars)-1)
	}
	m.parts[slot>>partBits][slot&partMask] = packed
}

func (m *memo) get(slot int) (Value, bool) {
	if slot>>partBits >= len(m.parts) {
		return Value{}, false
	}
	s := m.parts[slot>>partBits][slot&partMask]
	if s >= memoScalar {
		return m.scalars[s&(1<<memoBits-1)], true
	}
	return Value{Kind(s >> memoBits), uint64(s & (1<<memoBits - 1))}, s != memoEmpty
}
