package eager

// slab hands out values cut from larger pieces. A step makes tens of thousands of tensors and nodes, which go together when it is over: one by one they would cost a fifth of its time.
type slab[T any] struct{ rest []T }

const slabPiece = 128

// one is a new value.
func (s *slab[T]) one() *T { return &s.some(1)[0] }

// some are n new values.
func (s *slab[T]) some(n int) []T {
	if n > len(s.rest) {
		s.rest = make([]T, max(n, slabPiece))
	}
	out := s.rest[:n:n]
	s.rest = s.rest[n:]
	return out
}
