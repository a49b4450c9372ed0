package report

import (
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/units"
)

// FitSchema names the form of Fit.
const FitSchema = "plimsoll.fit/1"

// Fit is the answer of plimsoll fit: plans that fit, fastest first; those known not to fit follow.
type Fit struct {
	Schema     string      `json:"schema"`
	ID         string      `json:"id,omitempty"`
	Title      string      `json:"title"`
	Card       string      `json:"card"`
	GPUs       int         `json:"gpus"`
	Params     int64       `json:"params"`
	Capacity   units.Bytes `json:"capacity"`
	Effective  int         `json:"effective_batch"`
	Considered int         `json:"considered"` // configurations the limits allow
	Predicted  int         `json:"predicted"`  // of which so many had to be computed; bounds decided the others

	Methods      []Method      `json:"methods,omitempty"` // full fine-tuning, LoRA, QLoRA side by side
	Plans        []Plan        `json:"plans"`
	Alternatives []Alternative `json:"alternatives"`       // what else one would try, and why it loses
	Numerics     *Plan         `json:"numerics,omitempty"` // the fastest if numerics might change, where it is faster
	Least        []Remedy      `json:"least,omitempty"`    // when nothing fits: the least that would
	Warnings     []string      `json:"warnings"`
	Assumptions  []string      `json:"assumptions"`
	Next         *NextStep     `json:"next,omitempty"`
	Verified     *Verified     `json:"verified,omitempty"` // with --verify
	Written      *Written      `json:"written,omitempty"`  // with --write
	Script       *ScriptChange `json:"script,omitempty"`   // of a command: what makes it run as the first plan says
}

// ScriptChange is a plan in the words of a script.
type ScriptChange struct {
	Command string   `json:"command,omitempty"` // with the script's own options
	Code    []string `json:"code"`              // what it has no options for
}

// Written is a plan in the form of a framework.
type Written struct {
	Plan int    `json:"plan"` // its number, from 1
	Form string `json:"form"`
	Text string `json:"text"`
}

// Verified is a plan as it ran on this machine's card.
type Verified struct {
	Plan      int         `json:"plan"` // its number, from 1
	Form      string      `json:"form"` // what it was written for
	Card      string      `json:"card"`
	Torch     string      `json:"torch"`
	Allocated units.Bytes `json:"allocated"`
	Reserved  units.Bytes `json:"reserved"`
	StepMS    float64     `json:"step_ms,omitempty"`
	Failed    string      `json:"failed,omitempty"` // how memory ran out
	Holds     bool        `json:"holds"`            // it ran, and reserved no more than the plan's safe bound
	Notes     []string    `json:"notes"`
}

// Plan is a whole configuration.
type Plan struct {
	setup.Setup
	OfLayers int   `json:"layers,omitempty"`
	Calls    []int `json:"checkpoint_calls,omitempty"` // selective: which ones, from 0, where they are not the first
	Ranks    int   `json:"ranks,omitempty"`            // of a model that is cut: groups of cards that see different data

	Peak     PredictedPeak `json:"peak"`
	Safe     units.Bytes   `json:"safe"`
	Headroom units.Bytes   `json:"headroom"`              // capacity less what is safe, context included
	Host     units.Bytes   `json:"host_memory,omitempty"` // pinned memory of the host that each card's process needs for what was moved there

	StepMS      float64 `json:"step_ms"`     // one effective batch
	PassMS      float64 `json:"fwdbwd_ms"`   // one micro-batch, forward and backward
	OptimizerMS float64 `json:"opt_ms"`      //
	Uncertainty float64 `json:"uncertainty"` // of the time, as a share of it
	HostBound   bool    `json:"host_bound"`  // launches take longer than kernels

	Fits            bool     `json:"fits"`
	Verdict         Verdict  `json:"verdict"`
	Limited         *Limited `json:"limited,omitempty"` // a tight plan in the room there is
	ChangesNumerics bool     `json:"changes_numerics"`
	Why             string   `json:"why"`
	Changes         []string `json:"changes"` // against the job as given, with what each buys
}

// Method is a way to fine-tune.
type Method struct {
	Name            string      `json:"name"`  // full, LoRA, QLoRA
	Needs           units.Bytes `json:"needs"` // one sample at a time, every layer checkpointed
	Fits            bool        `json:"fits"`
	LargestBatch    int         `json:"largest_batch"`
	LongestSeq      int         `json:"longest_seq"` // of one sample at a time
	TokensPerSecond float64     `json:"tokens_per_second,omitempty"`
	Changes         string      `json:"changes"`
	setup.Adapters
}

// Alternative is an obvious configuration that was not chosen.
type Alternative struct {
	What   string  `json:"what"`
	Why    string  `json:"why"`
	StepMS float64 `json:"step_ms,omitempty"`
}
