package report

import "github.com/plimsoll/plimsoll/internal/units"

// Verdict is whether a job runs in the memory there is.
type Verdict string

// Verdicts.
const (
	Fits       Verdict = "fits"         // it completes, and no request has to wait for memory
	Tight      Verdict = "tight"        // it completes after the allocator released its cache, or with less room to spare than the prediction is uncertain
	DoesNotFit Verdict = "does-not-fit" // a request fails after the cache was released
	Unknown    Verdict = "unknown"      // it depends on what is not known
)

// Runs tells whether the job gets through.
func (v Verdict) Runs() bool { return v == Fits || v == Tight }

// Limited is a run in the memory there is, as the allocator goes through it.
type Limited struct {
	Room     units.Bytes `json:"room"`               // what may be reserved
	Reserved units.Bytes `json:"reserved"`           // at most
	Retries  int         `json:"retries"`            // how often the cache was released for a request; each waits for the card
	Declined int         `json:"declined,omitempty"` // workspaces of cuDNN that were refused: slower kernels run instead
	Failed   units.Bytes `json:"failed,omitempty"`   // the request that found no memory
}

// Run is a training run from its first step to its last.
type Run struct {
	Steps     int     `json:"steps"`   // training batches
	Samples   int     `json:"samples"` // whose lengths are known
	Longest   int     `json:"longest"` // of them
	Lengths   string  `json:"lengths"` // where the lengths come from
	Sampler   string  `json:"sampler"`
	Orders    int     `json:"orders"`      // of the samples that were simulated
	Failing   int     `json:"failing"`     // of these, how many do not complete
	Chance    float64 `json:"probability"` // of failing: their share
	Shapes    int     `json:"shapes"`      // different shapes of batches
	Evaluated int     `json:"evaluations,omitempty"`

	FailsAt      *FailsAt    `json:"fails_at"`      // in the first order that fails
	MaxAllocated units.Bytes `json:"max_allocated"` // on a card without limit, over all orders
	MaxReserved  units.Bytes `json:"max_reserved"`
	MeanReserved units.Bytes `json:"mean_reserved"`   // after each training batch, on that card, over all orders
	P99Reserved  units.Bytes `json:"p99_reserved"`    // 99 % of those are at most this
	Least        units.Bytes `json:"least,omitempty"` // reserved bytes the first order gets through with
	Limited      Limited     `json:"limited"`         // the first order that fails, or the first

	Curve    []RunMoment `json:"curve,omitempty"` // of that order, under the limit
	Free     []RunMoment `json:"free,omitempty"`  // on a card without limit
	Remedies []RunRemedy `json:"remedies,omitempty"`
}

// FailsAt is the batch that a run dies on.
type FailsAt struct {
	Step   int         `json:"step"`                 // from 1
	Eval   bool        `json:"evaluation,omitempty"` // in the evaluation after that step
	Shape  []int       `json:"shape"`                // samples and tokens of the longest
	Sample int         `json:"sample"`               // which of the samples is the longest, from 0; -1: not known
	Asked  units.Bytes `json:"asked"`
	Phase  string      `json:"phase,omitempty"`
	Where  string      `json:"where,omitempty"`
	Last   int         `json:"last,omitempty"` // the latest step at which an order fails
}

// RunMoment is one batch of a run, or the highest of several.
type RunMoment struct {
	Step      int         `json:"step"`
	Eval      bool        `json:"evaluation,omitempty"`
	Longest   int         `json:"longest"`
	Allocated units.Bytes `json:"allocated"`
	Reserved  units.Bytes `json:"reserved"`
	Retries   int         `json:"retries,omitempty"`
}

// RunRemedy is a change under which the run completes.
type RunRemedy struct {
	Action    string      `json:"action"`
	Flags     string      `json:"flags"` // of plimsoll predict, which checked it
	Reserved  units.Bytes `json:"reserved"`
	Retries   int         `json:"retries"`
	Failing   int         `json:"failing"` // orders that still fail
	Orders    int         `json:"orders"`
	Completes bool        `json:"completes"`
}
