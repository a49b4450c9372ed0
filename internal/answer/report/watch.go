package report

import "github.com/plimsoll/plimsoll/internal/units"

// Watch is the answer of plimsoll watch --json: one a reading. A nil number is unknown, or there is none.
type Watch struct {
	Schema   string      `json:"schema"`
	Time     float64     `json:"time"`   // seconds since 1970
	Source   string      `json:"source"` // nvml, nvidia-smi or demo
	Driver   string      `json:"driver"`
	Watched  float64     `json:"watched_seconds"`
	Readings int         `json:"readings"`
	Cards    []WatchCard `json:"cards"`
	Findings []Finding   `json:"findings"`
	Problems []string    `json:"problems"`
	Error    string      `json:"error,omitempty"` // why the last reading failed; the numbers are then older
}

// WatchSchema names the form of Watch.
const WatchSchema = "plimsoll.watch/1"

// WatchCard is a card or an instance of one. Total = used + free + reserved.
type WatchCard struct {
	ID            string         `json:"id"`
	Index         int            `json:"index"`
	Instance      *int           `json:"instance"` // of a card cut up by MIG
	Name          string         `json:"name"`
	Total         units.Bytes    `json:"total"`
	Used          units.Bytes    `json:"used"`
	Free          units.Bytes    `json:"free"`
	Reserved      units.Bytes    `json:"reserved"`
	Peak          units.Bytes    `json:"peak"`
	Unattributed  *units.Bytes   `json:"unattributed"`
	Utilization   *int           `json:"utilization"`
	GrowthPerSec  *float64       `json:"growth_bytes_per_second"`
	SecondsToFull *float64       `json:"seconds_to_full"`
	Orphans       []WatchOrphan  `json:"orphans"`
	Processes     []WatchProcess `json:"processes"`
	Temperature   *int           `json:"temperature_celsius"`
}

// WatchOrphan is memory that outlived its process.
type WatchOrphan struct {
	PID     int         `json:"pid"`
	Command string      `json:"command"`
	Bytes   units.Bytes `json:"bytes"`
	Listed  bool        `json:"listed"` // the driver still lists the PID
}

// WatchProcess is a process on a card.
type WatchProcess struct {
	PID       int          `json:"pid"`
	Bytes     *units.Bytes `json:"bytes"`
	Peak      *units.Bytes `json:"peak"`
	Command   string       `json:"command"`
	User      string       `json:"user"`
	Container string       `json:"container"`
	Pod       string       `json:"pod"`
	Job       string       `json:"job"`
	Rank      *int         `json:"rank"`
	Gone      bool         `json:"gone"`
	Hidden    string       `json:"hidden,omitempty"` // why nothing more is known
	Trend     *WatchTrend  `json:"trend"`
	Torch     *WatchTorch  `json:"torch"`
}

// WatchTrend is steady growth.
type WatchTrend struct {
	BytesPerSecond float64 `json:"bytes_per_second"`
	Margin         float64 `json:"margin"`
	Confidence     float64 `json:"confidence"`
	Seconds        float64 `json:"seconds"`
}

// WatchTorch is what a process started under plimsoll run says of its allocator.
type WatchTorch struct {
	Allocated     units.Bytes `json:"allocated"`
	Reserved      units.Bytes `json:"reserved"`
	Cached        units.Bytes `json:"cached"`
	PeakAllocated units.Bytes `json:"peak_allocated"`
	Step          int         `json:"step"`
	Phase         string      `json:"phase"`
	Holders       []Holder    `json:"holders,omitempty"` // who held its memory when it was last asked
}
