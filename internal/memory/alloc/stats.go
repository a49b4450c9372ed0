package alloc

import "github.com/plimsoll/plimsoll/internal/units"

// Stats are the counters of torch.cuda.memory_stats that decide whether a job fits.
type Stats struct {
	Requested units.Bytes // asked for in active blocks (requested_bytes)
	Allocated units.Bytes // sizes of blocks handed out (allocated_bytes)
	Active    units.Bytes // the same and those waiting for another stream (active_bytes)
	Reserved  units.Bytes // reserved by PyTorch (reserved_bytes)
	Segments  int         // pieces reserved by PyTorch; an expandable segment counts as one

	Peak Peak

	DeviceAllocs int // calls of cudaMalloc, and mappings of expandable segments
	DeviceFrees  int // calls of cudaFree, and unmappings
	Retries      int // num_alloc_retries: the cache was emptied to serve a request
	OOMs         int // num_ooms
	Declined     int // workspaces that were refused, and done without
}

// Peak holds the maxima since New or ResetPeaks.
type Peak struct {
	Requested, Allocated, Active, Reserved units.Bytes
	Segments                               int
}

// Stats gives the counters as they are now.
func (a *Allocator) Stats() Stats { return a.stats }

// ResetPeaks starts the maxima again from what is held now.
func (a *Allocator) ResetPeaks() {
	s := &a.stats
	s.Peak = Peak{s.Requested, s.Allocated, s.Active, s.Reserved, s.Segments}
}

func (s *Stats) handedOut(size, requested units.Bytes) {
	s.Requested += requested
	s.Allocated += size
	s.Active += size
	s.Peak.Requested = max(s.Peak.Requested, s.Requested)
	s.Peak.Allocated = max(s.Peak.Allocated, s.Allocated)
	s.Peak.Active = max(s.Peak.Active, s.Active)
}

func (s *Stats) returned(size, requested units.Bytes) {
	s.Requested -= requested
	s.Active -= size
}

func (s *Stats) reserved(change units.Bytes) {
	s.Reserved += change
	s.Peak.Reserved = max(s.Peak.Reserved, s.Reserved)
	if change > 0 {
		s.DeviceAllocs++
	} else {
		s.DeviceFrees++
	}
}

func (s *Stats) segmentCount(change int) {
	s.Segments += change
	s.Peak.Segments = max(s.Peak.Segments, s.Segments)
}

// Failure describes the request that found no memory.
type Failure struct {
	Rounded units.Bytes // the block it needed
	Segment units.Bytes // what was asked of the device for it: the number in PyTorch's message
	Stats   Stats       // when it failed, after everything releasable was released
}

// LastFailure describes the most recent Malloc that returned false.
func (a *Allocator) LastFailure() Failure { return a.failed }
