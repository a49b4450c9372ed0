package alloc

import "github.com/plimsoll/plimsoll/internal/units"

// AddressSource decides where new device memory lies. Up to PyTorch 2.12 equal free blocks are told apart by
// address, so the order matters.
type AddressSource interface {
	// Segment places what cudaMalloc returns.
	Segment(size units.Bytes) uint64
	// Reserve places the address space of an expandable segment.
	Reserve(size units.Bytes) uint64
	// Release is told of memory and address space given back.
	Release(addr uint64, size units.Bytes)
}

// Addresses far enough from 0 and from each other that no tape exhausts them.
const (
	middle     uint64 = 1 << 62
	reserved   uint64 = 1 << 63
	reserveGap        = 32 * units.MiB // the driver reserves in these units (measured, driver 580, H200)
)

// Decreasing places every segment below all earlier ones, which is close to what the driver does
// (measured: PyTorch 2.11, H200).
func Decreasing() AddressSource { return &stepping{down: true, next: middle, va: reserved} }

// Increasing places every segment above all earlier ones.
func Increasing() AddressSource { return &stepping{next: middle, va: reserved} }

type stepping struct {
	down bool
	next uint64
	va   uint64
}

func (s *stepping) Segment(size units.Bytes) uint64 {
	if s.down {
		s.next -= uint64(size)
		return s.next
	}
	addr := s.next
	s.next += uint64(size)
	return addr
}

func (s *stepping) Reserve(size units.Bytes) uint64 {
	addr := s.va
	s.va += uint64(roundUp(size, reserveGap))
	return addr
}

func (s *stepping) Release(uint64, units.Bytes) {}
