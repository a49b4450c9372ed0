package tape

import "github.com/plimsoll/plimsoll/internal/units"

// Beside follows what is held beside parameters, gradients and the optimizer's state.
type Beside struct {
	Least units.Bytes // of it, between the first gradient and the second: the first is there, and what it was computed from is not
	First units.Bytes // the first gradient
	now   units.Bytes
	grads int
}

// See takes in what is allocated, or less than nothing where it is freed.
func (b *Beside) See(c Category, size units.Bytes) {
	switch c {
	case Parameters, Optimizer:
		return
	case Gradients:
		if b.grads++; b.grads == 1 {
			b.Least, b.First = b.now, size
		}
		return
	}
	if b.now += size; b.grads == 1 {
		b.Least = min(b.Least, b.now)
	}
}
