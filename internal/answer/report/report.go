// Package report is the contract between what was found out and how it is shown.
//
// It takes the values the analysing packages fill in and returns JSON whose field names and schema are stable, and the same
// values for the text and page renderers. Nothing is computed here and no renderer computes either.
package report

import "github.com/plimsoll/plimsoll/internal/units"

// Explain is the answer of plimsoll explain.
type Explain struct {
	Schema   string     `json:"schema"`
	Inputs   []Input    `json:"inputs"`
	Devices  []Device   `json:"devices"`
	Message  *Message   `json:"message,omitempty"`  // the first out-of-memory message
	Messages []*Message `json:"messages,omitempty"` // all of them, where there are several
	Findings []Finding  `json:"findings"`
	Notes    []string   `json:"notes,omitempty"` // what is not known, and what would not help
	Outlier  string     `json:"outlier,omitempty"`
	Next     *NextStep  `json:"next,omitempty"`
}

// NextStep is the one command to go on with; it works as printed.
type NextStep struct {
	Why     string `json:"why"` // what it does, as an order: "search for settings that fit"
	Command string `json:"command"`
}

// ExplainSchema names the form of Explain.
const ExplainSchema = "plimsoll.explain/1"

// Input is a file that was read.
type Input struct {
	Name     string   `json:"name"`
	Kind     string   `json:"kind"` // snapshot, text, unreadable (skipped)
	Warnings []string `json:"warnings,omitempty"`
}

// Device is what one recording of one device says.
type Device struct {
	Input    string      `json:"input"`
	Device   int         `json:"device"`
	Events   int         `json:"events"`
	Complete bool        `json:"complete"` // the history reaches back to the start of the process
	Peak     Peak        `json:"peak"`
	End      Level       `json:"end"`
	AtPeak   AtPeak      `json:"at_peak"`
	Accounts *Accounts   `json:"accounts,omitempty"` // what was alive at the failure, or the peak where none failed
	Holders  []Holder    `json:"holders,omitempty"`  // who keeps what is alive at the end, largest first; they add up to end.requested
	Walk     *Walk       `json:"walk,omitempty"`     // how the holders were found
	OOM      []OOM       `json:"oom"`
	Steps    Steps       `json:"steps"`
	Pending  units.Bytes `json:"pending_free"` // freed, but another stream may still use it (at the end)
	Private  units.Bytes `json:"private_pools"`
	Settings string      `json:"allocator_settings,omitempty"`
}

// Level is memory in use, each kind by its own name.
type Level struct {
	Requested units.Bytes `json:"requested"`
	Allocated units.Bytes `json:"allocated"`
	Reserved  units.Bytes `json:"reserved"`
}

// Peak is the highest level and the event of the history at which Requested reached it.
type Peak struct {
	Level
	Event int    `json:"event"`
	Phase string `json:"phase"`
	Step  int    `json:"step"`
	// AllocatedExact is false where Allocated counts blocks as if all had been split: a lower bound.
	AllocatedExact bool `json:"allocated_exact"`
}

// AtPeak is what was alive at the peak of Requested.
type AtPeak struct {
	ByCategory map[string]units.Bytes `json:"by_category"`
	Certain    bool                   `json:"certain"` // false: no stacks, inferred from lifetimes
	Top        []Top                  `json:"top"`
}

// Accounts puts every byte that was allocated at one instant into exactly one account: they add up to Allocated.
type Accounts struct {
	Event     int         `json:"event"` // of the history
	Failure   bool        `json:"at_failure"`
	Allocated units.Bytes `json:"allocated"`
	Exact     bool        `json:"exact"` // false: blocks are at least as large as counted here
	List      []Account   `json:"list"`  // largest first
}

// Account is memory of one purpose, line, age and holder.
type Account struct {
	// Role is parameters, gradients, optimizer, activations, kept (made in an earlier step, and meant for that one), inputs, workspace, copy (of a model), checkpoint (loaded or being
	// saved), gathered, unknown, or rounding: what blocks are larger than what was asked for.
	Role   string      `json:"role"`
	Bytes  units.Bytes `json:"bytes"`
	Count  int         `json:"count,omitempty"`
	Where  *Place      `json:"where,omitempty"`
	Phase  string      `json:"phase,omitempty"`
	Oldest *int        `json:"oldest,omitempty"` // age in steps of the oldest and the newest: 0 is the step at work; absent where it was there before the history
	Newest *int        `json:"newest,omitempty"`
	Eval   bool        `json:"eval,omitempty"` // made in evaluation or generation
	Holder string      `json:"holder,omitempty"`
}

// Top is memory one line asked for.
type Top struct {
	Bytes    units.Bytes `json:"bytes"`
	Count    int         `json:"count"`
	Category string      `json:"category"`
	Frames   []string    `json:"frames"` // innermost first; the user's code and what it called
	Where    *Place      `json:"where,omitempty"`
}

// Holder is memory that one name keeps alive.
type Holder struct {
	Name  string      `json:"name"` // as people read it: feats[*] in train.py:8 main
	Bytes units.Bytes `json:"bytes"`
	Count int         `json:"count"`
	// Role is parameter, gradient, optimizer, buffer, input, saved, variable, library, temporary, or empty where no name reaches it.
	Role  string   `json:"role,omitempty"`
	Type  string   `json:"type,omitempty"` // of the variable: list, dict, Tensor
	Where *Place   `json:"where,omitempty"`
	Parts []string `json:"parts,omitempty"` // the largest: modules, operations, lines
	Also  []string `json:"also,omitempty"`  // further names that hold the same: all must let go
	// PerStep and TensorsPerStep are what every step adds; zero where it does not grow.
	PerStep        units.Bytes `json:"growth_per_step,omitempty"`
	TensorsPerStep float64     `json:"tensors_per_step,omitempty"`
}

// Walk says when and how completely holders were found.
type Walk struct {
	When     string  `json:"when"` // oom, growth, peak, demand
	Seconds  float64 `json:"seconds"`
	Complete bool    `json:"complete"`
	Share    float64 `json:"share"` // of the requested bytes alive, those that a name or a role was found for
	Step     int     `json:"step"`
	Phase    string  `json:"phase"`
}

// OOM is a request that failed.
type OOM struct {
	Event      int         `json:"event"`
	Requested  units.Bytes `json:"requested"`
	Segment    units.Bytes `json:"segment"` // what PyTorch asked the driver for to serve it
	DeviceFree units.Bytes `json:"device_free"`
	Capacity   units.Bytes `json:"capacity"` // what this process could have had
	// CapacityFrom says how Capacity is known: "message", "driver" (held plus free), or "bounds" (between CapacityLow and CapacityHigh).
	CapacityFrom string      `json:"capacity_from"`
	CapacityLow  units.Bytes `json:"capacity_low"`
	CapacityHigh units.Bytes `json:"capacity_high"`
	Held         units.Bytes `json:"reserved"`
	InUse        units.Bytes `json:"in_use"`
	Phase        string      `json:"phase"`
	Step         int         `json:"step"`
	Where        *Place      `json:"where,omitempty"`
	Frames       []string    `json:"frames,omitempty"`
}

// Steps is what is known of the training steps in the history.
type Steps struct {
	Count   int           `json:"count"`
	From    string        `json:"from,omitempty"` // marks, annotations, stacks or repetition
	AtEnd   []units.Bytes `json:"in_use_at_end,omitempty"`
	PerStep units.Bytes   `json:"growth_per_step,omitempty"`
}

// Message is an out-of-memory message as it was printed; a nil number was not in it.
type Message struct {
	Format              string       `json:"format"`
	Backend             string       `json:"backend"`
	Library             string       `json:"library,omitempty"`
	Framework           string       `json:"framework,omitempty"` // pytorch, vllm, jax, llama.cpp …, as far as the text tells
	Work                string       `json:"work,omitempty"`      // training, inference, serving, diffusion, data
	OS                  string       `json:"os,omitempty"`
	Requested           *units.Bytes `json:"requested,omitempty"`
	Capacity            *units.Bytes `json:"capacity,omitempty"`
	Free                *units.Bytes `json:"free,omitempty"`
	Process             *units.Bytes `json:"process,omitempty"`
	Allocated           *units.Bytes `json:"allocated,omitempty"`
	Reserved            *units.Bytes `json:"reserved,omitempty"`
	ReservedUnallocated *units.Bytes `json:"reserved_unallocated,omitempty"`
	PrivatePools        *units.Bytes `json:"private_pools,omitempty"`
	Allowed             *units.Bytes `json:"allowed,omitempty"`
	Others              []Process    `json:"others"`
	Device              int          `json:"device"`
	Rank                *int         `json:"rank,omitempty"`
	Phase               string       `json:"phase,omitempty"`
	Input               string       `json:"input,omitempty"`
	Line                int          `json:"line,omitempty"`
}

// Process is another process on the card.
type Process struct {
	PID   int         `json:"pid"`
	Bytes units.Bytes `json:"bytes"`
}

// Severities of findings.
const (
	Error   = "error"
	Warning = "warning"
	Remark  = "note"
)

// Finding is a cause with its evidence.
type Finding struct {
	ID         string      `json:"id"`
	Severity   string      `json:"severity"`
	Confidence float64     `json:"confidence"`
	Title      string      `json:"title"`
	Evidence   []string    `json:"evidence"`
	Refuted    string      `json:"refuted_by,omitempty"` // what would show this finding to be wrong
	Where      []Place     `json:"where"`
	Bytes      units.Bytes `json:"bytes"`
	Remedies   []Remedy    `json:"remedies"`
	Input      string      `json:"input,omitempty"`
	Device     int         `json:"device"`
	Lint       []string    `json:"lint,omitempty"` // lint rules that name the same line
	Also       []string    `json:"also,omitempty"` // other inputs with the same finding
	Holders    []Holder    `json:"holders,omitempty"`
}

// Place is a line of code.
type Place struct {
	File     string `json:"file"`
	Line     int    `json:"line"`
	Function string `json:"function"`
}

// Remedy is a change with its effect.
type Remedy struct {
	Action    string      `json:"action"`
	Saves     units.Bytes `json:"saves"`      // 0: not a matter of bytes
	CheckedBy string      `json:"checked_by"` // replay, prediction, arithmetic or rule
	Command   string      `json:"command,omitempty"`
	Numerics  bool        `json:"changes_numerics,omitempty"`
	// Enough says whether it makes the run fit: "yes", "no", or "with: " and another remedy; empty where that is not known.
	Enough    string      `json:"enough,omitempty"`
	Missing   units.Bytes `json:"missing,omitempty"`    // where it is not enough alone
	AppliesTo *Applies    `json:"applies_to,omitempty"` // explain says it of every remedy
}

// Applies says for whom a remedy is meant. An empty list is everyone.
type Applies struct {
	Framework []string `json:"framework,omitempty"` // pytorch, vllm, jax, llama.cpp …: one of these is in use
	Backend   []string `json:"backend,omitempty"`   // cuda, hip, xpu, npu, mps, tpu, cpu …
	OS        []string `json:"os,omitempty"`        // linux, windows, macos
	Work      []string `json:"work,omitempty"`      // training, inference, serving, diffusion, data
	Torch     string   `json:"torch,omitempty"`     // from this release of PyTorch on
}

// How a remedy's effect was found.
const (
	ByReplay     = "replay"
	ByPrediction = "prediction"
	ByArithmetic = "arithmetic"
	ByRule       = "rule"
)
