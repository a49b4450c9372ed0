// Package probenotes reads what the probe wrote about one process of a run and says what it means.
//
// It takes the JSON notes of each process (schema plimsoll.notes/1) and returns the peak, the limit it ran under, the headroom, the trend over the steps,
// the rank that stands out, and whether memory is what ended the run. Notes of another schema, or larger than
// the probe writes, are refused; a field that is missing counts as unknown, never as zero bytes of a limit.
package probenotes

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/plimsoll/plimsoll/internal/document"
	"github.com/plimsoll/plimsoll/internal/units"
)

const schema = "plimsoll.notes/1"

// Process is what one process wrote about itself.
type Process struct {
	Schema      string               `json:"schema"`
	Run         string               `json:"run"` // the attempt it belongs to, as `plimsoll run` numbers them
	PID         int                  `json:"pid"`
	Rank        int                  `json:"rank"`
	WorldSize   int                  `json:"world_size"`
	Torch       string               `json:"torch"`
	Argv        []string             `json:"argv"`
	Cwd         string               `json:"cwd"`
	Ended       bool                 `json:"ended"` // false: it was killed, these are its last notes
	Device      *int                 `json:"device"`
	Cards       []Card               `json:"cards"`
	CapFraction *float64             `json:"cap_fraction"`
	Outside     *units.Bytes         `json:"outside"` // most that was used on the card outside this process's PyTorch: CUDA's context, other processes; nil unknown
	Step        int                  `json:"step"`
	Phase       string               `json:"phase"`
	Peak        Peak                 `json:"peak"`
	History     [][]json.Number      `json:"history"`
	OOMs        []OOM                `json:"ooms"`
	OOMCount    int                  `json:"oom_count"`
	Error       *Failure             `json:"error"`
	Loaders     []Loader             `json:"loaders"`
	Optimizers  map[string]Optimizer `json:"optimizers"`
	Snapshot    string               `json:"snapshot"` // file beside the notes
	Host        Host                 `json:"host"`
	Recording   Recording            `json:"recording"`
	Fit         *Fit                 `json:"fit"`
	Problems    []string             `json:"problems"`
}

// Card is a GPU as PyTorch sees it.
type Card struct {
	Index    int         `json:"index"`
	Name     string      `json:"name"`
	Capacity units.Bytes `json:"capacity"`
}

// Peak is the most memory ever held, with where that was.
type Peak struct {
	Allocated units.Bytes `json:"allocated"`
	Reserved  units.Bytes `json:"reserved"`
	Step      int         `json:"step"` // from 0
	Phase     string      `json:"phase"`
}

// OOM is one request that failed, as PyTorch's observer reported it.
type OOM struct {
	Device     int         `json:"device"`
	Requested  units.Bytes `json:"requested"`
	Limit      units.Bytes `json:"limit"` // what this process may use of the device
	DeviceFree units.Bytes `json:"device_free"`
	Allocated  units.Bytes `json:"allocated"`
	Reserved   units.Bytes `json:"reserved"`
	Step       int         `json:"step"`
	Phase      string      `json:"phase"`
	Stack      []Frame     `json:"stack"`
}

// Frame is a place in the script.
type Frame struct {
	File     string `json:"file"`
	Line     int    `json:"line"`
	Function string `json:"function"`
}

// Failure is the exception that ended the process.
type Failure struct {
	Type        string `json:"type"`
	Message     string `json:"message"`
	OutOfMemory bool   `json:"out_of_memory"`
	Traceback   string `json:"traceback"`
}

// Loader is a DataLoader the script made.
type Loader struct {
	Batch   *int   `json:"batch"`
	Sampler string `json:"sampler"`
}

// Optimizer is an optimizer the script made.
type Optimizer struct {
	Class          string      `json:"class"`
	Momentum       bool        `json:"momentum"`
	ParameterBytes units.Bytes `json:"parameter_bytes"`
}

// Host is the host memory when the notes were written.
type Host struct {
	Resident  units.Bytes `json:"resident"`
	Available units.Bytes `json:"available"`
}

// Recording says how the history was recorded.
type Recording struct {
	StacksEvery int      `json:"stacks_every"` // one step in so many carries Python stacks
	StackCost   *float64 `json:"stack_cost"`   // measured share of a step
}

// Fit is what a fitting run changed in this process.
type Fit struct {
	Split       int       `json:"split"`
	Batch       int       `json:"batch"`       // samples of a whole batch
	ModelBatch  int       `json:"model_batch"` // samples the model is called with
	Applied     []string  `json:"applied"`
	Refused     string    `json:"refused"` // why the plan cannot be honoured; empty: it is
	Part        Part      `json:"part"`    // the part of the plan that was refused
	Where       string    `json:"where"`
	Steps       int       `json:"steps"`         // optimizer steps really taken
	Micro       int       `json:"micro_batches"` // micro-batches handed to the script
	BrokeOff    bool      `json:"broke_off"`     // the script left a loop over a loader before its end
	Losses      []float64 `json:"losses"`        // of whole batches, where asked for
	Recomputed  int       `json:"recomputed"`
	Checkpoints int       `json:"checkpoints"`
}

// Part is one of the changes a plan makes.
type Part string

// Parts that a script can refuse, as _fit.py names them.
const (
	PartSplit      Part = "split"
	PartCheckpoint Part = "checkpoint"
	PartChunk      Part = "chunk"
)

// Name is the part in words.
func (p Part) Name() string {
	switch p {
	case PartCheckpoint:
		return "checkpointing"
	case PartChunk:
		return "calling the model in parts"
	}
	return "micro-batches"
}

// Read decodes one process's notes.
func Read(r io.Reader) (Process, error) {
	data, err := document.Read(r, document.Notes)
	if err != nil {
		return Process{}, err
	}
	var p Process
	if err := document.Decode(data, &p); err != nil {
		return Process{}, fmt.Errorf("decode notes: %w", err)
	}
	if p.Schema != schema {
		return Process{}, fmt.Errorf("not the probe's notes: schema is %.40q, want %s", p.Schema, schema)
	}
	return p, nil
}

// DiedOfMemory tells whether memory ended this process: its uncaught exception says so.
func (p Process) DiedOfMemory() bool { return p.Error != nil && p.Error.OutOfMemory }

// Limit is what the process may use of its card, and false when no card is known.
func (p Process) Limit() (units.Bytes, bool) {
	if len(p.OOMs) > 0 && p.OOMs[len(p.OOMs)-1].Limit > 0 {
		return p.OOMs[len(p.OOMs)-1].Limit, true
	}
	if p.Device == nil {
		return 0, false
	}
	for _, c := range p.Cards {
		if c.Index != *p.Device || c.Capacity <= 0 {
			continue
		}
		if p.CapFraction != nil && *p.CapFraction > 0 && *p.CapFraction <= 1 {
			return units.Bytes(float64(c.Capacity) * *p.CapFraction), true
		}
		return c.Capacity, true
	}
	return 0, false
}

// Room is what PyTorch may use of the card beside everything else there, and false when no card is known. A cap binds PyTorch alone: what is outside of it
// counts against the card.
func (p Process) Room() (units.Bytes, bool) {
	limit, known := p.Limit()
	if !known || p.Outside == nil || p.Device == nil {
		return limit, known
	}
	for _, c := range p.Cards {
		if c.Index == *p.Device && c.Capacity > 0 {
			return max(0, min(limit, c.Capacity-*p.Outside)), true
		}
	}
	return limit, true
}

// Batch is the batch size of the loader that feeds training: the first that shuffles or is distributed, else the first with a size.
func (p Process) Batch() int {
	first := 0
	for _, l := range p.Loaders {
		if l.Batch == nil || *l.Batch <= 0 {
			continue
		}
		if l.Sampler == "RandomSampler" || l.Sampler == "DistributedSampler" {
			return *l.Batch
		}
		if first == 0 {
			first = *l.Batch
		}
	}
	return first
}

// TrainingBatch is the batch size that every loader of training has: of those that shuffle or are distributed, or, where none does, of all. 0: they differ, or none has one.
func (p Process) TrainingBatch() int {
	var all, shuffled []int
	for _, l := range p.Loaders {
		if l.Batch == nil || *l.Batch <= 0 {
			continue
		}
		all = append(all, *l.Batch)
		if l.Sampler == "RandomSampler" || l.Sampler == "DistributedSampler" {
			shuffled = append(shuffled, *l.Batch)
		}
	}
	if len(shuffled) > 0 {
		all = shuffled
	}
	if len(all) == 0 || slices.Min(all) != slices.Max(all) {
		return 0
	}
	return all[0]
}
