package report

import (
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/units"
)

// PredictSchema names the form of Prediction.
const PredictSchema = "plimsoll.predict/1"

// Prediction is the answer of plimsoll predict for one job.
type Prediction struct {
	Schema string `json:"schema"`
	ID     string `json:"id"`
	Title  string `json:"title,omitempty"` // the job in a few words
	Card   string `json:"card,omitempty"`

	Params    int64       `json:"params"`
	Trainable int64       `json:"trainable"`
	Stored    int64       `json:"stored,omitempty"` // parameters of the safetensors files that were given
	AfterLoad units.Bytes `json:"after_load"`       // allocated once the model is on the card

	Peak   PredictedPeak            `json:"peak"`
	Safe   units.Bytes              `json:"safe"` // reserved bytes that are not expected to be exceeded
	Phase  string                   `json:"phase"`
	Step   int                      `json:"step"`
	Where  string                   `json:"where,omitempty"` // module and operator at the peak
	Phases map[string]units.Bytes   `json:"phases"`          // highest allocated bytes of each phase
	Steps  []map[string]units.Bytes `json:"steps,omitempty"` // the same for every step

	ByCategory map[string]units.Bytes `json:"by_category"` // allocated at the peak, and the context
	Top        []Owned                `json:"top,omitempty"`

	// AtLeast says why the peak and the bound are only those of what was followed: the run may need more later. Empty: all of it was.
	AtLeast string `json:"at_least,omitempty"`

	Range *Range `json:"range,omitempty"` // where sizes depend on data, or workspaces on a card that was not measured

	Trials *Trials `json:"trials,omitempty"` // with torch.backends.cudnn.benchmark

	Capacity units.Bytes `json:"capacity"`
	Fits     bool        `json:"fits"` // the verdict is fits or tight
	Verdict  Verdict     `json:"verdict"`
	Limited  *Limited    `json:"limited,omitempty"` // in the memory there is
	Least    units.Bytes `json:"least,omitempty"`   // reserved bytes it gets through in
	Run      *Run        `json:"run,omitempty"`     // of a whole run
	NoCard   bool        `json:"no_card,omitempty"` // neither a card nor its memory was named: the capacity is only a default, and the need is the answer
	Largest  *Largest    `json:"largest,omitempty"`
	Next     *NextStep   `json:"next,omitempty"`

	Sharded *Sharded `json:"sharded,omitempty"` // where the job is spread over cards; Fits is then each card's

	Timeline []Moment    `json:"timeline,omitempty"` // where asked for
	Batches  []BatchNeed `json:"batches,omitempty"`  // with the timeline: the same job with other batches, smallest first

	ReadFrom    string   `json:"read_from,omitempty"` // which code described a model that is not built in
	Assumptions []string `json:"assumptions"`
	Unknown     []string `json:"unknown_operators,omitempty"`
	Error       string   `json:"error,omitempty"` // of a job that could not be predicted, where others could
}

// Range is where the peak lies when sizes depend on data, workspaces were not measured on the card, or measured neighbours of a convolution disagree: allocated bytes.
type Range struct {
	Low  units.Bytes `json:"low"`
	High units.Bytes `json:"high"`
	Why  string      `json:"why"`
}

// Trials is what cudnn.benchmark does to the peak, in allocated bytes: the first call of every convolution tries all algorithms, where there is room
// for them, and later calls need the workspace of the one that was chosen.
type Trials struct {
	First  units.Bytes `json:"first"`  // with the trials
	Needed units.Bytes `json:"needed"` // without them
}

// PredictedPeak is the highest level of a run, each kind by its own name.
type PredictedPeak struct {
	Allocated units.Bytes `json:"allocated"`
	Reserved  units.Bytes `json:"reserved"`
	Device    units.Bytes `json:"device"` // reserved and the CUDA context
}

// Owned is memory of one module and purpose at the peak.
type Owned struct {
	Category string      `json:"category"`
	Module   string      `json:"module"`
	Bytes    units.Bytes `json:"bytes"`
	Count    int         `json:"count"`
}

// Largest is what still fits when one size is changed and all else stays.
type Largest struct {
	Batch int `json:"batch"`                 // that fits; 0: not even one; LargestBatch: at least as many
	Tight int `json:"tight_batch,omitempty"` // that completes after cache releases, where it is larger
	Seq   int `json:"seq,omitempty"`
}

// LargestBatch is where the search for a largest batch ends.
const LargestBatch = 1 << 16

// Sharded is what each of several cards needs: analytic, not measured.
type Sharded struct {
	Kind        setup.Sharding `json:"kind,omitempty"` // ddp, zero1, zero2, zero3, fsdp2
	Ranks       int            `json:"ranks"`
	Tensor      int            `json:"tensor"`
	Stages      int            `json:"stages"`
	Allocated   units.Bytes    `json:"allocated"`
	Reserved    units.Bytes    `json:"reserved"` // by a rank's own tape; where there is none, the safe bound
	Buffers     units.Bytes    `json:"buffers"`
	Safe        units.Bytes    `json:"safe"`
	Fits        bool           `json:"fits"`
	Assumptions []string       `json:"assumptions"`
}

// Needs are the bytes a card is expected to need: reserved ones where a rank's own tape was played, else those in use.
func (s *Sharded) Needs() units.Bytes {
	if s.Reserved < s.Safe {
		return s.Reserved
	}
	return s.Allocated
}

// BatchNeed is what a job needs with one batch.
type BatchNeed struct {
	Batch      int                    `json:"batch"`
	Own        bool                   `json:"own,omitempty"` // the batch the job has
	Peak       PredictedPeak          `json:"peak"`
	Safe       units.Bytes            `json:"safe"`
	Phase      string                 `json:"phase"`
	Step       int                    `json:"step"`
	ByCategory map[string]units.Bytes `json:"by_category"`
	Fits       bool                   `json:"fits"`
	Verdict    Verdict                `json:"verdict"`
}

// Moment is one instant of a predicted run.
type Moment struct {
	Event      int                    `json:"event"`
	Step       int                    `json:"step"`
	Phase      string                 `json:"phase"`
	Requested  units.Bytes            `json:"requested"`
	ByCategory map[string]units.Bytes `json:"by_category"`
}
