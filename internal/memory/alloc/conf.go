package alloc

import (
	"math"

	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Intervals is the number of size classes of roundup_power2_divisions: 1 MiB, 2 MiB, … 32 GiB and above.
const Intervals = 16

// unlimited is the default of max_split_size: no block is too large to be split.
const unlimited = units.Bytes(math.MaxInt64 / 4)

// Conf is what a settings string means. The zero Conf is PyTorch's default.
type Conf struct {
	MaxSplit          units.Bytes    // max_split_size_mb; 0: unlimited
	GarbageCollection float64        // garbage_collection_threshold; 0: off
	Divisions         [Intervals]int // roundup_power2_divisions by interval; 0: off
	Expandable        bool           // expandable_segments
	NonSplitRounding  units.Bytes    // max_non_split_rounding_mb; 0: as LargeSegment
	LargeSegment      units.Bytes    // large_segment_size_mb; 0: 20 MiB
	Bypass            units.Bytes    // roundup_bypass_threshold_mb (1.13); 0: none
	Fraction          float64        // per_process_memory_fraction; 0: not set
	ThrowOnOOM        bool           // throw_on_cudamalloc_oom
	Async             bool           // backend:cudaMallocAsync, which this model does not cover
}

// resolved replaces every zero that means a default.
func (c Conf) resolved() Conf {
	if c.MaxSplit <= 0 {
		c.MaxSplit = unlimited
	}
	if c.LargeSegment <= 0 {
		c.LargeSegment = largeBuffer
	}
	if c.NonSplitRounding <= 0 {
		c.NonSplitRounding = c.LargeSegment
	}
	if c.Fraction <= 0 {
		c.Fraction = 1
	}
	return c
}

// Clashes lists what is known to misbehave in these settings, alone or together, for a version.
func (c Conf) Clashes(v torch.Version, capped bool) []string {
	var found []string
	if c.GarbageCollection > 0 && !capped && (c.Fraction == 0 || c.Fraction >= 1) {
		found = append(found, "garbage_collection_threshold does nothing without a memory limit: call torch.cuda.set_per_process_memory_fraction as well")
	}
	if c.MaxSplit > 0 && c.Expandable {
		found = append(found, "max_split_size_mb together with expandable_segments leaves large free blocks unusable, so reserved memory can grow without bound (pytorch pull request 193400)")
	}
	if c.Divisions == uniform(1) {
		if torch.AlignedRounding.Has(v) {
			found = append(found, "roundup_power2_divisions:1 has no effect")
		} else {
			found = append(found, "roundup_power2_divisions:1 leaves sizes unaligned before PyTorch "+torch.AlignedRounding.From.String()+" (pytorch pull request 126830)")
		}
	}
	if c.Async {
		found = append(found, "backend:cudaMallocAsync ignores these settings and is not modelled")
	}
	return found
}

func uniform(d int) (all [Intervals]int) {
	for i := range all {
		all[i] = d
	}
	return all
}

// SetConf changes the settings of a running allocator, as torch.cuda.memory._set_allocator_settings does. What is
// already held stays as it was made.
func (a *Allocator) SetConf(c Conf) {
	a.policy.Conf, a.conf = c, c.resolved()
	a.cap = a.policy.capacity(a.conf)
}
