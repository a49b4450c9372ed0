package snapshot

// Millions of records arrive one by one, and how many there will be is not known. They are kept in parts that never move: a slice that grows would be copied again and again, and
// hold twice its size while it is.
const (
	partBits = 13
	partSize = 1 << partBits
	partMask = partSize - 1
)

// parts is a list that only grows.
type parts[T any] struct {
	of [][]T
	n  int
}

// add makes room for one more and tells its place.
func (p *parts[T]) add() uint64 {
	if p.n&partMask == 0 {
		p.of = append(p.of, make([]T, partSize))
	}
	p.n++
	return uint64(p.n - 1)
}

func (p *parts[T]) at(i uint64) *T { return &p.of[i>>partBits][i&partMask] }

// events are the columns of a Trace while they are read.
type events struct {
	parts []*eventPart
	n     int
}

type eventPart struct {
	action [partSize]Action
	addr   [partSize]uint64
	size   [partSize]int64
	stream [partSize]uint16
	stack  [partSize]StackID
	time   [partSize]int64
	pool   [partSize]uint16
}

// add makes room for one more event and tells its place.
func (e *events) add() uint32 {
	if e.n&partMask == 0 {
		e.parts = append(e.parts, new(eventPart))
	}
	e.n++
	return uint32(e.n - 1)
}

// columns gives the events to a Trace; times and pools only where some event has one.
func (e *events) columns(t *Trace, times, pools bool) {
	t.Action = column(e, func(p *eventPart) []Action { return p.action[:] })
	t.Addr = column(e, func(p *eventPart) []uint64 { return p.addr[:] })
	t.Size = column(e, func(p *eventPart) []int64 { return p.size[:] })
	t.Stream = column(e, func(p *eventPart) []uint16 { return p.stream[:] })
	t.Stack = column(e, func(p *eventPart) []StackID { return p.stack[:] })
	if times {
		t.TimeUS = column(e, func(p *eventPart) []int64 { return p.time[:] })
	}
	if pools {
		t.Pool = column(e, func(p *eventPart) []uint16 { return p.pool[:] })
	}
	*e = events{}
}

func column[T any](e *events, of func(*eventPart) []T) []T {
	out := make([]T, 0, e.n)
	for _, p := range e.parts {
		out = append(out, of(p)[:min(partSize, e.n-len(out))]...)
	}
	return out
}
