package flow

// slab hands out things that live and die with their module, many at a time: more with each time, so that a small file takes little.
type slab[T any] struct {
	free []T
	size int
}

const firstSlab, lastSlab = 4, 64

func (s *slab[T]) next() *T {
	if len(s.free) == 0 {
		s.size = min(max(2*s.size, firstSlab), lastSlab)
		s.free = make([]T, s.size)
	}
	out := &s.free[0]
	s.free = s.free[1:]
	return out
}
