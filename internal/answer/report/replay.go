package report

import "github.com/plimsoll/plimsoll/internal/units"

// Replay is the answer of plimsoll replay for one device.
type Replay struct {
	Schema   string `json:"schema"`
	Input    string `json:"input"`
	Device   int    `json:"device"`
	Torch    string `json:"torch"`
	TorchIs  string `json:"torch_from"` // flag, file (follows from its fields) or fit (its rules reproduce the recording)
	Recorded struct {
		Conf        string `json:"conf"`
		Complete    bool   `json:"complete"` // the history reaches back to the start of the process
		EmptyCaches int    `json:"empty_cache_calls"`
		OOMs        int    `json:"ooms"`
		// Partial says that the run died there: what the step would still have needed is not in the history, so that every need is at least the one named.
		Partial   bool        `json:"partial"`
		Limit     units.Bytes `json:"limit"` // 0: none showed
		LimitLow  units.Bytes `json:"limit_low"`
		LimitHigh units.Bytes `json:"limit_high"`
		LimitIs   string      `json:"limit_from"` // flag, cap, device or none
	} `json:"recorded"`
	Fidelity ReplayFidelity `json:"fidelity"`
	// Capacity decides who runs out of memory; 0: nothing does.
	Capacity      units.Bytes     `json:"capacity"`
	CapacityIs    string          `json:"capacity_from"` // flag, recorded or none
	InUse         units.Bytes     `json:"in_use"`        // the most memory ever in use at once, as recorded
	Settings      []ReplaySetting `json:"settings"`
	Environment   string          `json:"environment"` // the line for the best setting; empty: PyTorch's default
	Helps         bool            `json:"helps"`       // a setting is better than the recorded one
	Fragmentation Fragmented      `json:"fragmentation"`
	Warnings      []string        `json:"warnings"`
}

// ReplaySchema names the form of Replay.
const ReplaySchema = "plimsoll.replay/1"

// ReplayFidelity is how well the allocator model reproduces the recording.
type ReplayFidelity struct {
	Events          int         `json:"events"`
	Allocations     int         `json:"allocations"`
	AddressMatches  int         `json:"address_matches"`
	FirstDivergence *int        `json:"first_divergence"` // event of the history; null: nowhere
	Divergence      string      `json:"divergence,omitempty"`
	SegmentEvents   int         `json:"segment_events"`
	SegmentMatches  int         `json:"segment_matches"`
	Recorded        units.Bytes `json:"reserved_peak_recorded"`
	Replayed        units.Bytes `json:"reserved_peak_replayed"`
	Exact           bool        `json:"exact"`
}

// ReplaySetting is what the recording would have come to under a setting.
type ReplaySetting struct {
	Conf     string `json:"conf"` // "default" for PyTorch's own
	Recorded bool   `json:"recorded"`
	// Peak is at the capacity that was asked for, or without any limit.
	Peak Level `json:"peak"`
	// AtCapacity is the peak at the recorded run's limit, where none was asked for.
	AtCapacity *Level `json:"peak_at_capacity,omitempty"`
	Segments   int    `json:"segments"`
	Retries    int    `json:"retries"`
	// OOM is the first request that fails at Capacity.
	OOM           *ReplayOOM  `json:"oom"`
	Smallest      units.Bytes `json:"smallest_capacity"`
	ReservedOther units.Bytes `json:"reserved_other_address_order"`
	Environment   string      `json:"environment"`
	Warnings      []string    `json:"warnings"`
}

// ReplayOOM is a request that fails.
type ReplayOOM struct {
	Event     int         `json:"event"`
	Requested units.Bytes `json:"requested"`
	Allocated units.Bytes `json:"allocated"`
	Reserved  units.Bytes `json:"reserved"`
}

// Fragmented is memory held but not in use at an instant of the recorded run, and what keeps it.
type Fragmented struct {
	Event    int         `json:"event"`
	Reserved units.Bytes `json:"reserved"`
	InUse    units.Bytes `json:"in_use"`
	Cached   units.Bytes `json:"cached"`
	Pinned   units.Bytes `json:"pinned"`
	Pins     []Pin       `json:"pins"`
}

// Pin is allocations of one line that keep segments which mostly lie empty.
type Pin struct {
	Blocks   int         `json:"blocks"`
	Bytes    units.Bytes `json:"bytes"`
	Segments int         `json:"segments"`
	Pinned   units.Bytes `json:"pinned"`
	Where    *Place      `json:"where,omitempty"`
}
