package snapshot

import (
	"fmt"
	"slices"
)

const (
	// maxDevices is far beyond the 128 that PyTorch itself can number
	// (https://github.com/pytorch/pytorch/blob/v2.11.0/c10/cuda/CUDAMacros.h, C10_COMPILE_TIME_MAX_GPUS; DeviceIndex is an int8).
	maxDevices = 1024
	// maxSize is beyond the memory of any card: what was allocated cannot be larger. What was asked for can.
	maxSize = 1 << 44
)

// validate decides in one place what a snapshot may hold, so that nobody who uses one has to ask again: every size is
// that of real memory, every device can exist, events stand in the order of time. It mends events out of order, which a ring
// buffer whose size was changed while recording leaves behind.
func (s *Snapshot) validate() error {
	if err := validateSegments(s.Segments, "segment"); err != nil {
		return err
	}
	if err := validateSegments(s.HostSegments, "host segment"); err != nil {
		return err
	}
	if err := s.HostTrace.validate(); err != nil {
		return fmt.Errorf("%w: host history, %w", ErrFormat, err)
	}
	for d := range s.Traces {
		t := &s.Traces[d]
		if err := t.validate(); err != nil {
			return fmt.Errorf("%w: device %d, %w", ErrFormat, d, err)
		}
		if t.TimeUS != nil && !slices.IsSorted(t.TimeUS) {
			t.sortByTime()
			s.Warnings = append(s.Warnings, fmt.Sprintf("device %d: the history was out of order (max_entries was changed while recording) and was sorted by time", d))
		}
	}
	s.warnAboutSegments()
	return nil
}

// validate checks the events of one history.
func (t *Trace) validate() error {
	for i, a := range t.Action {
		size := t.Size[i]
		switch a {
		case ActionAlloc, ActionFreeRequested, ActionFreeCompleted, ActionSegmentAlloc, ActionSegmentFree, ActionSegmentMap, ActionSegmentUnmap:
			if size <= 0 || size > maxSize {
				return fmt.Errorf("event %d (%s): its size is %d bytes", i, a, size)
			}
		case ActionOOM:
			if size < 0 {
				return fmt.Errorf("event %d (%s): its size is %d bytes", i, a, size)
			}
		}
	}
	return nil
}

func validateSegments(segments []Segment, what string) error {
	for i := range segments {
		s := &segments[i]
		if s.Device < 0 || s.Device >= maxDevices {
			return fmt.Errorf("%w: %s %d is on device %d", ErrFormat, what, i, s.Device)
		}
		if s.TotalSize < 0 || s.TotalSize > maxSize {
			return fmt.Errorf("%w: %s %d has a total_size of %d bytes", ErrFormat, what, i, s.TotalSize)
		}
		for k, b := range s.Blocks {
			if b.Size < 0 || b.Size > maxSize || b.Requested < 0 || b.Requested > maxSize {
				return fmt.Errorf("%w: %s %d, block %d: %d bytes, %d requested", ErrFormat, what, i, k, b.Size, b.Requested)
			}
		}
	}
	return nil
}

func (s *Snapshot) warnAboutSegments() {
	var odd int
	for i := range s.Segments {
		var sum int64
		for _, b := range s.Segments[i].Blocks {
			sum += b.Size
		}
		if len(s.Segments[i].Blocks) > 0 && sum != s.Segments[i].TotalSize {
			odd++
		}
	}
	if odd > 0 {
		s.Warnings = append(s.Warnings, fmt.Sprintf("%d of %d segments are not the sum of their blocks", odd, len(s.Segments)))
	}
}
